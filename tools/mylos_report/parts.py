"""Parts of campaigns' reports that all share: the opening, tables of rows, sweeps as a table, what did not run.

Each returns Markdown, or "" when nothing is there to show. Columns are in COLUMNS; a campaign may add its own, (title, function of row).
MFU of a run whose attention stays inside documents is left out: it counts whole rows (docs/bundle.md).
"""

import math
import re

from mylos_device.outcomes import alike

from .campaign import model_text, recompute_text, state_text, system_text
from .markdown import clean, table

GIB = 2**30


def _or_none(value, form):
    return "" if value is None or (isinstance(value, float) and not math.isfinite(value)) else form(value)


def percent(value):
    return _or_none(value, lambda v: f"{100 * v:.1f} %")


def _mfu(name):
    return lambda row: "" if row["documents"] else percent(row[name])


def with_interval(row):
    wide = max(row["tokens_per_s_high"] - row["tokens_per_s"], row["tokens_per_s"] - row["tokens_per_s_low"])
    return f"{row['tokens_per_s']:,.0f} ± {100 * wide / row['tokens_per_s']:.1f} %"


def _layers(row):
    layers = row["model"].get("layers", "?")
    return f"{model_text(row)}, {layers} layer{'s' * (layers != 1)} of {row['model'].get('dim', '?')}"


PLAN_TOLERANCE = 0.02


def losses(row):
    return [row["losses"][step] for step in sorted(row["losses"])]


def training_failures(row):
    """What is wrong with a short run that ended: losses that are not finite or do not fall, memory that is not as planned."""
    values, found = losses(row), []
    if not all(map(math.isfinite, values)):
        return ["a loss is not finite"]
    if sum(values[-3:]) / 3 >= values[0]:
        found.append(f"the loss does not fall: {values[0]:.3f} to {values[-1]:.3f}")
    planned, peak = row["planned_memory"], row["peak_memory"]
    if not planned or abs(peak - planned) > PLAN_TOLERANCE * planned:
        found.append(f"memory: {planned} bytes planned, {peak:.0f} used")
    return found


COLUMNS = {
    "row": ("row", lambda r: r["name"]),
    "system": ("system", system_text),
    "gpus": ("GPUs", lambda r: str(r["hardware"]["devices"]) if r["hardware"]["is_gpu"] else "0 (CPU)"),
    "nodes": ("nodes", lambda r: str(r["hardware"]["nodes"])),
    "model": ("model", model_text),
    "layers": ("model", _layers),
    "sequence": ("S", lambda r: str(r["sequence"])),
    "batch": ("batch", lambda r: f"{r['batch']}x{r['accumulation']}"),
    "recompute": ("recompute", recompute_text),
    "state": ("weights/gradients/master/moments", lambda r: state_text(r["state"])),
    "deterministic": ("deterministic", lambda r: "yes" if r["deterministic"] else "no"),
    "tokens_per_s": ("tokens/s", lambda r: f"{r['tokens_per_s']:,.0f}"),
    "tokens_per_s_interval": ("tokens/s, 95 %", with_interval),
    "step_time": ("ms a step", lambda r: _or_none(r["step_time"], lambda v: f"{1000 * v:,.1f}")),
    "mfu_causal": ("mfu_causal", _mfu("mfu_causal")),
    "mfu_palm": ("mfu_palm", _mfu("mfu_palm")),
    "mfu_total": ("mfu_total", _mfu("mfu_total")),
    "sol": ("sol", _mfu("sol")),
    "memory": ("GiB", lambda r: f"{r['peak_memory'] / GIB:.1f}"),
    "memory_mib": ("MiB", lambda r: f"{r['peak_memory'] / 2**20:,.0f}"),
    "planned": ("GiB planned", lambda r: _or_none(r["planned_memory"], lambda v: f"{v / GIB:.1f}")),
    "energy": ("J/token", lambda r: _or_none(r["energy_per_token"], lambda v: f"{v:.3g}")),
    "power": ("W", lambda r: _or_none(r["power"], lambda v: f"{v:.0f}")),
    "clock": ("MHz", lambda r: _or_none(r["sm_clock"], lambda v: f"{v:.0f}")),
    "ratio_limit": ("of the limit", lambda r: "" if r["system"] == "limit" else _or_none(r["ratio_limit"], lambda v: f"{v:.3f}")),
    "ratio_pytorch": ("of PyTorch", lambda r: "" if r["system"] != "mylos" else _or_none(r["ratio_pytorch"], lambda v: f"{v:.3f}")),
    "loss": ("loss", lambda r: _or_none(last_loss(r), lambda v: f"{v:.3f}")),
    "losses": ("loss, first to last", lambda r: f"{losses(r)[0]:.3f} to {losses(r)[-1]:.3f}"),
    "verdict": ("", lambda r: f"FAIL: {'; '.join(training_failures(r))}" if training_failures(r) else "PASS"),
    "call": ("call", lambda r: r["call"][-4:] or "none"),
}
USUAL = ("row", "system", "gpus", "nodes", "model", "batch", "sequence", "recompute", "state", "tokens_per_s_interval", "step_time",
         "mfu_causal", "mfu_palm", "mfu_total", "memory", "energy", "call")  # fmt: skip


def last_loss(row):
    return row["losses"][max(row["losses"])] if row["losses"] else None


def table_of(header, lines):
    """A Markdown table; columns of numbers are to the right, the first one never."""
    if not lines:
        return ""
    numbers = [all(re.match(r"[*+-]*\d", line[i]) for line in lines if line[i]) for i in range(len(header))]
    rule = ["--:" if i and numbers[i] else "---" for i in range(len(header))]
    return "\n".join(re.sub(r"\|  (?=\|)", "| ", "| " + " | ".join(line) + " |") for line in [header, rule, *lines])


def runs(rows, columns=USUAL):
    """Columns without a value in any row are left out."""
    chosen = [COLUMNS[c] if isinstance(c, str) else c for c in columns]
    cells = [[function(row) for _, function in chosen] for row in rows]
    kept = [i for i in range(len(chosen)) if any(line[i] for line in cells)]
    return table_of([chosen[i][0] for i in kept], [[line[i] for i in kept] for line in cells])


def pivot(rows, down, across, cell, corner=""):
    """A table of one value by two keys (functions of a row); a combination without a row is empty."""
    downs, acrosses = (list(dict.fromkeys(map(key, rows))) for key in (down, across))
    values = {(down(r), across(r)): cell(r) for r in rows}
    return table_of([corner, *acrosses], [[d, *(values.get((d, a), "") for a in acrosses)] for d in downs]) if rows else ""


def _calls(results):
    """Each call: its date, rows, commit."""
    shown = []
    for call in results.calls():
        rows = [r for r in results.abouts if r["call"] == call]
        commits = sorted({r["commit"][:7] + (" with changes" if r["dirty"] else "") for r in rows})
        name = f"`{call}`" if call else "outside of a call"
        days = sorted({r["created"][:10] for r in rows})
        shown.append(f"{' to '.join(sorted({days[0], days[-1]}))}: {name}, {len(rows)} bundle{'s' * (len(rows) > 1)}, commit {' and '.join(commits)}")
    return "; ".join(shown)


def _hardware(about):
    h = about["hardware"]
    if h["is_gpu"]:
        cap = f", power cap {h['power_limit']:.0f} W" if h["power_limit"] else ""
        return f"{h['devices']} x {about['device']}{cap}, driver {h['driver']}"
    return f"CPU: {h['cpu']}, {h['threads']} of {h['cpu_cores']} cores"


def _machines(abouts):
    """One text a machine: a bundle without telemetry knows no power cap of a card that another bundle knows it of."""
    texts = list(map(_hardware, abouts))
    capped = {text.replace(text[text.index(", power cap"):text.index(", driver")], "") for text in texts if ", power cap" in text}
    return [text for text in texts if text not in capped]


def _software(rows):
    names = ("CUDA", "cuDNN", "oneDNN", "OpenBLAS", "Kokkos", "PyTorch")
    by_system = {}
    for r in rows:
        found = ", ".join(f"{n} {r['software'][n]}" for n in names if r["software"].get(n))
        by_system.setdefault(found, []).append(r["system"])
    return "; ".join(f"{', '.join(dict.fromkeys(systems))}: {found}" for found, systems in by_system.items() if found)


def _few(texts, most=4):
    unique = list(dict.fromkeys(t for t in texts if t))
    more = f"; {len(unique) - most} more" if len(unique) > most else ""
    return "; ".join(unique[:most]) + more


def _range(values):
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"


def opening(results):
    """What every report begins with, from bundles: date, commit, hardware, software, data, steps, steady window."""
    abouts, rows = results.abouts, results.rows
    if not abouts:
        return ""
    lines = [
        ("date, call, commit", _calls(results)),
        ("hardware", _few(_machines(abouts))),
        ("software", _software(abouts)),
        ("data", clean(_few([" ".join(r["data"].split()) for r in abouts], 3), 500)),
    ]
    if rows:
        rules = _few([clean(r["window_rule"]) for r in rows])
        lines += [
            ("steps", f"{_range([r['window'][2] for r in rows])} a row"),
            ("steady window", f"{_range([r['steps'] for r in rows])} steps a row: {rules}; tokens/s are their median"),
        ]
    lines += [("rules of sampling", clean(rule, 1200)) for rule in _rules(results)]
    return table(("", ""), [(name, value) for name, value in lines if value])


def _rules(results):
    """How benchmarks warm up, stop and reject: what a steady window is for them."""
    names = ("warm_up_rule", "stop_rule", "reject_rule")
    found = ("; ".join(bundle.attribute("/samples", name, "") for name in names) for bundle in results.bundles("bench"))
    return list(dict.fromkeys(text for text in found if text.strip("; ")))


def outcomes(results):
    """Rows that left nothing in any call, with their reasons, and what stands among the results though it was cut short."""
    cut = results.cut_short()
    named = {(o["row"], o["call"]) for o in cut}
    bad = [o for o in results.outcomes if not results.has_result(o["row"]) and (o["row"], o["call"]) not in named]
    bad += [o | {"status": "cut short"} for o in cut]
    if not bad:
        return "None of those that ran." if results.outcomes else "No record of rows is kept beside these bundles."
    return table_of(["row", "", "reason"], [[names, o["status"], clean(o.get("reason", ""), 400)] for names, o in alike(bad)])
