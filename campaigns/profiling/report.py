"""Tables of profiling's README, from its profile bundles: `mylos campaign report profiling [--check]`."""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(pathlib.Path(os.environ.get("MYLOS_ROOT") or HERE.parents[1]) / "tools"))
from mylos_report import folder_report, kernel_figures, parts  # noqa: E402

ADDS_UP = 0.01  # of the step


def profiles(results):
    """(row, bundle) of profiles that have kernels."""
    return [(b.path.name.split(".")[0], b) for b in results.bundles("profile") if kernel_figures.has_kernels(b)]


def categories(results):
    """Milliseconds of a step, and their share, that each category has alone; the last line says whether they add up."""
    found = profiles(results)
    shown = {}
    for i, (_, bundle) in enumerate(found):
        _, rows, summary = kernel_figures.figures(bundle)
        step = summary["step_time"]
        for category, exposed, time in ((r["category"], r["exposed"], r["time"]) for r in rows):
            hidden = f", {1000 * (time - exposed):,.1f} hidden" if time - exposed > 1e-3 * step else ""
            shown.setdefault(category, [""] * len(found))[i] = f"{1000 * exposed:,.1f} ({100 * exposed / step:.1f} %{hidden})"
        total = sum(r["exposed"] for r in rows)
        verdict = "adds up" if abs(total - step) <= ADDS_UP * step else "DOES NOT ADD UP"
        shown.setdefault("step", [""] * len(found))[i] = f"{1000 * step:,.1f}: {verdict} to {100 * total / step:.2f} %"
    lines = [[category, *cells] for category, cells in shown.items()]
    lines.sort(key=lambda line: line[0] == "step")
    return parts.table_of(["ms a step", *(name for name, _ in found)], lines)


def kernels(results):
    """The longest kernels of each profile."""
    tables = []
    for name, bundle in profiles(results):
        rows, _, summary = kernel_figures.figures(bundle)
        lines = [[f"`{(r['name'] or r['category'])[:80].replace('|', '/')}`", f"`{r['region']}`" if r["region"] else "none", r["category"],
                  f"{r['calls']:,.0f}", f"{1000 * r['exposed']:,.2f}", f"{100 * r['exposed'] / summary['step_time']:.1f} %"]
                 for r in sorted(rows, key=lambda r: -r["exposed"])[:15]]  # fmt: skip
        tables.append(f"Row `{name}`, {len(rows)} kernels:\n\n" + parts.table_of(["kernel", "region", "category", "calls a step", "ms a step", "share"], lines))
    return "\n\n".join(tables)


def runs(results):
    return parts.runs(results.rows, ("row", "model", "batch", "sequence", "recompute", "state", "tokens_per_s_interval", "step_time", "call"))


if __name__ == "__main__":
    made = {"opening": parts.opening, "categories": categories, "kernels": kernels, "runs": runs, "not-run": parts.outcomes}
    sys.exit(folder_report.main(__file__, made))
