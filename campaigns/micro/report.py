"""Tables of micro's README, from its bench bundles: `mylos campaign report micro [--check]`."""

import math
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(pathlib.Path(os.environ.get("MYLOS_ROOT") or HERE.parents[1]) / "tools"))
from mylos_report import folder_report, parts  # noqa: E402

TEXTS = ("name", "component", "dtype", "skipped")
FIGURES = ("median", "median_low", "median_high", "flop_rate", "byte_rate", "share")


def cases(bundle):
    """Cases of a bench bundle with their figures."""
    columns = {name: bundle.texts(f"/cases/{name}") for name in TEXTS}
    columns |= {name: bundle.datasets[f"/derived/cases/{name}"].tolist() for name in FIGURES}
    modes = bundle.texts("/cases/mode") or [bundle.attribute("/", "mode", "")] * len(columns["name"])
    about = {"system": bundle.attribute("/", "system", "mylos"), "call": bundle.attribute("/provenance", "call", ""),
             "is_gpu": bool(bundle.attribute("/hardware", "is_gpu"))}  # fmt: skip
    return [dict(zip(columns, values)) | about | {"mode": mode} for values, mode in zip(zip(*columns.values()), modes)]


def all_cases(results):
    return [case for bundle in results.bundles("bench") for case in cases(bundle)]


def rate(case):
    """FLOPs where they are many a byte, else bytes."""
    flops, moved = (case[name] if math.isfinite(case[name]) else 0 for name in ("flop_rate", "byte_rate"))
    if flops > 10 * moved:
        return f"{flops / 1e12:,.3g} TFLOP/s"
    return f"{moved / 1e9:,.4g} GB/s" if moved else ""


def microseconds(seconds):
    return f"{1e6 * seconds:,.2f}" if seconds < 1e-4 else f"{1e6 * seconds:,.0f}"


def fastest(peers, case):
    """The peer's fastest mode of the same case in the same call, or None."""
    same = [p for p in peers if p["name"] == case["name"] and p["call"] == case["call"] and math.isfinite(p["median"])]
    return min(same, key=lambda p: p["median"], default=None)


def component(name, is_gpu):
    def table(results):
        found = [c for c in all_cases(results) if c["is_gpu"] == is_gpu]
        peers = [c for c in found if c["system"] != "mylos"]
        lines = []
        for c in (c for c in found if c["system"] == "mylos" and (c["component"] == name or name == "all") and not c["skipped"]):
            peer = fastest(peers, c)
            half = max(c["median_high"] - c["median"], c["median"] - c["median_low"]) / c["median"]
            lines.append(
                [f"`{c['name']}`", c["dtype"], f"{microseconds(c['median'])} ± {100 * half:.1f} %", rate(c),
                 f"{100 * c['share']:.0f} %" if math.isfinite(c["share"]) else "", microseconds(peer["median"]) if peer else "",
                 peer["mode"] if peer else "", f"{peer['median'] / c['median']:.2f}x" if peer else ""]
            )  # fmt: skip
        header = ["case", "dtype", "us, 95 %", "rate", "of the roofline", "PyTorch, us", "its fastest mode", "mylos is"]
        kept = [i for i in range(len(header)) if any(line[i] for line in lines)]
        return parts.table_of([header[i] for i in kept], [[line[i] for i in kept] for line in lines])

    return table


def skipped(results):
    lines = sorted({(c["name"], c["system"], c["skipped"]) for c in all_cases(results) if c["skipped"]})
    return parts.table_of(["case", "system", "why it has no samples"], [[f"`{n}`", s, w.replace("|", "/")] for n, s, w in lines])


if __name__ == "__main__":
    made = {"opening": parts.opening}
    made |= {name: component(name, True) for name in ("forward", "optimizer", "data", "checkpoint", "harness")}
    made |= {"cpu": component("all", False), "skipped": skipped, "not-run": parts.outcomes}
    sys.exit(folder_report.main(__file__, made))
