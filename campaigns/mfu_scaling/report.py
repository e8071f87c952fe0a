"""Tables and figures of mfu_scaling's README, from its bundles: `mylos campaign report mfu_scaling [--check]`."""

import itertools
import os
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(pathlib.Path(os.environ.get("MYLOS_ROOT") or HERE.parents[1]) / "tools"))
from mylos_report import campaign, folder_report, parts, plots, quoted  # noqa: E402

BILLION = 10**9
SPEEDS = ("recompute", "batch", "state", "deterministic", "tokens_per_s_interval", "step_time", "ratio_limit", "ratio_pytorch", "mfu_causal", "mfu_palm",
          "mfu_total", "memory", "energy", "power", "clock")  # fmt: skip


def on_gpu(results):
    return [r for r in results.rows if r["hardware"]["is_gpu"]]


def eight_billion(results):
    """Rows of 8.03 B by call, the call of most rows first."""
    rows = [r for r in on_gpu(results) if r["parameters"] > 8 * BILLION and not r["name"].startswith("sweep-")]
    calls = [[r for r in rows if r["call"] == call] for call in sorted({r["call"] for r in rows})]
    return sorted(calls, key=len, reverse=True)


def same(name):
    def cell(row):
        value = row[f"ratio_{name}_same"]
        return "" if value is None or row["system"] == name or (name == "pytorch" and row["system"] != "mylos") else f"{value:.3f}"

    title = {"limit": "of the limit, same recomputation", "pytorch": "of PyTorch, same recomputation"}[name]
    return title, cell


def table_8b(results):
    calls = eight_billion(results)
    return parts.runs(calls[0], ("row", "system", *SPEEDS, same("limit"), same("pytorch"))) if calls else ""


def table_8b_again(results):
    """Other calls, rows in the order in which they ran."""
    tables = [f"Call `{rows[0]['call']}`, in the order of the rows:\n\n"
              + parts.runs(sorted(rows, key=lambda r: r["created"]), ("row", "system", "recompute", "tokens_per_s_interval", "ratio_limit", "ratio_pytorch", "clock"))
              for rows in eight_billion(results)[1:]]  # fmt: skip
    return "\n\n".join(tables)


def small(results):
    rows = [r for r in on_gpu(results) if r["parameters"] < BILLION and "parity" not in r["name"] and not r["name"].startswith("sweep-")]
    fastest = {r["call"]: max((q["tokens_per_s"] for q in rows if q["call"] == r["call"] and q["system"] == "mylos"), default=0) for r in rows}

    def times(row):
        return f"{fastest[row['call']] / row['tokens_per_s']:.2f}x" if row["system"] != "mylos" and fastest[row["call"]] else ""

    columns = ("row", "system", "state", "tokens_per_s_interval", "step_time", "mfu_causal", "mfu_palm", "memory", "energy")
    return parts.runs(rows, (*columns, ("mylos is", times)))


def swept(results):
    return [r for r in results.rows if r["name"].startswith("sweep-")]


def table_sweep(results):
    columns = ("model", "recompute", "batch", "state", "tokens_per_s_interval", "step_time", "mfu_causal", "mfu_palm", "memory", "energy", "call")
    return parts.runs(sorted(swept(results), key=lambda r: (r["parameters"], r["recompute"], parts.state_text(r["state"]), r["batch"])), columns)


def figure_sweep(results):
    return plots.sweep(
        [r for r in swept(results) if r["mfu_causal"] is not None], "sweep.png", "mfu_causal of each model and policy over the micro-batch",
        "Micro-batch, recomputation and precision",
        lambda r: f"{parts.model_text(r)} {parts.recompute_text(r)} {parts.state_text(r['state'])}", lambda r: r["batch"] * r["sequence"],
        lambda r: 100 * r["mfu_causal"], "tokens a micro-batch", "mfu_causal (%)")  # fmt: skip


def cpu(results):
    rows = sorted((r for r in results.rows if not r["hardware"]["is_gpu"]), key=lambda r: (r["call"], r["parameters"], r["name"]))
    return parts.runs(rows, ("row", "system", "model", "batch", "sequence", "recompute", "state", "tokens_per_s_interval", "step_time", "memory_mib", "call"))


def share(results):
    return plots.share_of_limit(on_gpu(results), "tokens/s of each row as a part of the limit")


def figure_scaling(results):
    """The fastest row of each model and number of GPUs, models of a billion parameters and more."""
    best = {}
    for row in on_gpu(results):
        key = (row["parameters"], row["hardware"]["devices"])
        if row["system"] == "mylos" and row["parameters"] > BILLION and row["tokens_per_s"] > best.get(key, row)["tokens_per_s"] - 1e-9:
            best[key] = row
    entries = [e for e in quoted.read(HERE / "quoted.toml") if e["system"] == "KempnerForge"]
    return plots.scaling(list(best.values()), entries, "scaling.png", "tokens/s a GPU over GPUs, quoted rows hollow", "Tokens/s a GPU")


def table_parity(results):
    """Losses of every two rows of parity, step by step."""
    rows = sorted((r for r in results.rows if "parity" in r["name"]), key=lambda r: (r["system"], r["call"]))
    lines = []
    for a, b in itertools.combinations(rows, 2):
        steps = sorted(a["losses"].keys() & b["losses"].keys())
        apart = np.array([a["losses"][s] - b["losses"][s] for s in steps])
        last = [np.mean([r["losses"][s] for s in steps[-20:]]) for r in (a, b)]
        lines.append(
            [f"{a['system']} [{a['call'][-4:]}]", f"{b['system']} [{b['call'][-4:]}]", str(len(steps)), f"{np.abs(apart[:20]).max():.2g}",
             f"{np.abs(apart).max():.2g}", f"{apart[-50:].mean():+.2g}", f"{np.abs(apart[-50:]).max():.2g}", f"{last[0]:.3f}, {last[1]:.3f}"]
        )  # fmt: skip
    header = ["losses of", "less those of", "steps", "first 20: largest", "all: largest", "last 50: mean", "last 50: largest", "mean of the last 20"]
    return parts.table_of(header, lines)


def figure_parity(results):
    return plots.parity(campaign.parity(results.rows), results.rows, "losses of both and how far they are apart")


if __name__ == "__main__":
    sys.exit(
        folder_report.main(
            __file__,
            {
                "opening": parts.opening,
                "share": share,
                "8b": table_8b,
                "8b-again": table_8b_again,
                "small": small,
                "sweep": table_sweep,
                "sweep-figure": figure_sweep,
                "cpu": cpu,
                "scaling": figure_scaling,
                "quoted": lambda results: quoted.table(quoted.read(HERE / "quoted.toml")),
                "parity": table_parity,
                "parity-figure": figure_parity,
                "not-run": parts.outcomes,
            },
        )
    )
