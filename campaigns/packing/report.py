"""Tables of packing's README, from its bundles: `mylos campaign report packing [--check]`."""

import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(pathlib.Path(os.environ.get("MYLOS_ROOT") or HERE.parents[1]) / "tools"))
from mylos_report import folder_report, parts  # noqa: E402

KINDS = {
    "plain": "plain: one document a row",
    "equal": "8 equal documents a row",
    "lognormal": "log-normal documents",
    "best-fit": "log-normal, best fit",
}


def named(results):
    """(kind, whether attention's gradients are added up in any order, row) of the rows on a GPU."""
    for row in results.rows:
        match = re.fullmatch(r"(plain|equal|lognormal|best-fit)-\d+(-free)?", row["name"])
        if match and row["hardware"]["is_gpu"]:
            yield match.group(1), bool(match.group(2)), row


def speeds(results):
    found = list(named(results))
    plain = {(free, r["sequence"], r["call"]): r["tokens_per_s"] for kind, free, r in found if kind == "plain"}
    label = {id(r): KINDS[kind] + (", attention's gradients in any order" if free else "") for kind, free, r in found}
    of = {id(r): plain.get((free, r["sequence"], r["call"])) for _, free, r in found}
    found.sort(key=lambda entry: (entry[1], list(KINDS).index(entry[0]), entry[2]["sequence"]))

    def cell(row):
        base = of[id(row)]
        ratio = f" ({row['tokens_per_s'] / base:.3f})" if base and base != row["tokens_per_s"] else ""
        return f"{row['tokens_per_s']:,.0f}{ratio}"

    rows = sorted((r for _, _, r in found), key=lambda r: r["sequence"])
    across = [r["sequence"] for r in rows]
    text = parts.pivot([r for _, _, r in found], lambda r: label[id(r)], lambda r: f"S {r['sequence']:,}", cell, "tokens/s (of plain)")
    if not rows:
        return ""
    waits = [f"{100 * max(r['data_wait'] for r in rows if r['sequence'] == s):.2f} %" for s in dict.fromkeys(across)]
    return text + "\n| wait for data, of the time of a step, at most | " + " | ".join(waits) + " |"


def ragged(results):
    """Our kernels against cuDNN's ragged calls, on the card that measured both."""
    rows = [r for r in results.rows if r["name"].startswith("ragged-")]
    lines = []
    for row in rows:
        own = [r for kind, free, r in named(results)
               if kind == row["name"].split("-")[1] and not free and r["sequence"] == row["sequence"] and r["hardware"]["uuid"] == row["hardware"]["uuid"]]  # fmt: skip
        ours = own[0]["tokens_per_s"] if own else None
        lines.append([KINDS[row["name"].split("-")[1]], f"{row['tokens_per_s']:,.0f}", f"{ours:,.0f}" if ours else "",
                      f"{row['tokens_per_s'] / ours:.3f}" if ours else ""])  # fmt: skip
    return parts.table_of(["S 512", "ragged calls, tokens/s", "our kernels, tokens/s", "ratio"], lines)


def start(results):
    """What medians hide: the mean over the steady window beside them."""
    columns = ("row", "tokens_per_s_interval", "step_time", "memory", "energy", "power", "clock")
    mean = ("tokens/s by mean", lambda r: f"{r['batch'] * r['accumulation'] * r['sequence'] / r['mean_step_time']:,.0f}")
    return parts.runs([r for _, _, r in named(results)], (*columns[:2], mean, *columns[2:]))


def cpu(results):
    rows = [r for r in results.rows if not r["hardware"]["is_gpu"]]
    return parts.runs(rows, ("row", "model", "batch", "sequence", "tokens_per_s_interval", "step_time", "call"))


if __name__ == "__main__":
    made = {"opening": parts.opening, "speeds": speeds, "ragged": ragged, "rows": start, "cpu": cpu, "not-run": parts.outcomes}
    sys.exit(folder_report.main(__file__, made))
