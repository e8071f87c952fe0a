"""A campaign's folder as text: tables of its rows, and parity of losses (`tools/report FOLDER`).

Rows, and what they are compared with, are those of rows.py.
"""

import math
import pathlib

import numpy as np

from .rows import MFU, RATIOS, read


def state_text(state):
    return "/".join(state[k] for k in ("weights", "gradients", "master", "moments"))


def system_text(row):
    return f"{row['system']} {row['mode']}" if row["system"] == "pytorch" else row["system"]


def model_text(row):
    count = row["parameters"]
    return f"{count / 1e9:.2f} B" if count >= 1e9 else f"{count / 1e6:.1f} M"


def _cell(value, form):
    return "-" if value is None else form(value)


def _grid(header, lines, left):
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    return "\n".join(
        "  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip()
        for line in [header, *lines]
    )


def recompute_text(row):
    """The policy, and in how many blocks when not in all."""
    return f"{row['recompute']}{row['recompute_blocks'] or ''}"


def short_table(rows):
    """What is read after a call: speed, ratios, memory, power, clock, and the part of the time spent waiting for data."""
    header = ("row", "tokens/s", "/limit", "/limit same", "/pytorch", "/pytorch same", "GiB", "W", "MHz", "data wait %")
    lines = [
        (
            f"{r['name']}, {system_text(r)} {recompute_text(r)} {r['batch']}x{r['accumulation']}",
            f"{r['tokens_per_s']:,.0f}",
            *(_cell(r[ratio], "{:.3f}".format) for ratio in RATIOS),
            f"{r['peak_memory'] / 2**30:.1f}",
            _cell(r["power"], "{:.0f}".format),
            _cell(r["sm_clock"], "{:.0f}".format),
            _cell(r["data_wait"], lambda v: f"{100 * v:.1f}"),
        )
        for r in rows
    ]
    return _grid(header, lines, 1)


def full_table(rows):
    header = ("system", "model", "recompute", "batch", "weights/gradients/master/moments", "deterministic", "tokens/s", "95 % interval",
              *(f"{name} %" for name in MFU), "GiB", "J/token", "MHz", "/limit", "/limit same", "/pytorch", "/pytorch same", "call", "file")  # fmt: skip
    lines = [
        (
            system_text(r),
            model_text(r),
            recompute_text(r),
            f"{r['batch']}x{r['accumulation']}",
            state_text(r["state"]),
            "yes" if r["deterministic"] else "no",
            f"{r['tokens_per_s']:,.0f}",
            f"{r['tokens_per_s_low']:,.0f}-{r['tokens_per_s_high']:,.0f}",
            *(_cell(r[name], lambda v: f"{100 * v:.1f}") for name in MFU),
            f"{r['peak_memory'] / 2**30:.1f}",
            _cell(r["energy_per_token"], "{:.4f}".format),
            _cell(r["sm_clock"], "{:.0f}".format),
            *(_cell(r[ratio], "{:.3f}".format) for ratio in RATIOS),
            r["call"] or "-",
            r["file"],
        )
        for r in rows
    ]
    return _grid(header, lines, 5)


def parity(rows):
    """Losses of rows noted as parity against mylos' of the same call: largest and mean difference, step by step."""
    found = []
    marked = [r for r in rows if "parity" in r["name"] and r["system"] in ("mylos", "pytorch") and len(r["losses"]) > 1]
    for mine in (r for r in marked if r["system"] == "mylos"):
        for other in (r for r in marked if r["system"] != "mylos" and r["call"] == mine["call"] and mine["parameters"] == r["parameters"]):
            steps = [s for s in sorted(mine["losses"]) if math.isfinite(mine["losses"][s] + other["losses"].get(s, math.nan))]
            apart = np.array([mine["losses"][s] - other["losses"][s] for s in steps])
            if not steps:
                continue
            last = apart[-(len(apart) // 4 or 1) :]
            found.append(
                {
                    "mylos": mine["file"],
                    "other": other["file"],
                    "other_state": state_text(other["state"]),
                    "steps": len(steps),
                    "first_difference": float(apart[0]),
                    "largest_difference": float(np.max(np.abs(apart))),
                    "last_quarter_mean_difference": float(last.mean()),
                    "mylos_last_loss": mine["losses"][steps[-1]],
                    "other_last_loss": other["losses"][steps[-1]],
                }
            )
    return found


def report(folder, as_json, out=None):
    """The command: text, lines for standard error and the exit status."""
    import json

    rows, problems, notes = read(folder)
    pairs = parity(rows)
    drawn = []
    if rows and (out or not as_json):
        from . import figures

        place = pathlib.Path(out or folder)
        place.mkdir(parents=True, exist_ok=True)
        drawn = [f for f in (figures.share_of_limit(rows, place), figures.parity(pairs, rows, place)) if f]
    if as_json:
        shown = [{k: v for k, v in r.items() if k != "losses"} for r in rows]
        text = json.dumps({"rows": shown, "parity": pairs, "problems": problems, "notes": notes}, indent=1, allow_nan=False)
    else:
        text = (
            full_table(rows)
            if rows
            else f"no bundle of a row in {folder} or its results/; `tools/device bench` writes them (docs/campaigns.md)"
        )
        for p in pairs:
            text += (
                f"\n{p['mylos']} against {p['other']} ({p['other_state']}): {p['steps']} steps, loss apart by "
                f"{p['first_difference']:+.2e} in the first, at most {p['largest_difference']:.2e}, "
                f"{p['last_quarter_mean_difference']:+.2e} on average over the last quarter"
            )
        text += "".join(f"\nfigure {pathlib.Path(out or folder) / name}" for name in drawn)
    return text, problems + notes, 1 if problems or not rows else 0
