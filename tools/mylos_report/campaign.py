"""A campaign: a folder of bundles (train and peer), one row each, compared within the call that measured them.

    rows, problems, notes = read(folder)   # problems: one line for each file that is not counted, and why; notes: for each that is no row

Speeds of different calls are on different days, cards or clocks, so ratios to the limit (nothing recomputed) and to the best
PyTorch row are taken within one call, model and sequence length, and are missing when that call has no such row. A run of one step,
which only prepares weights, is no row.
"""

import math
import pathlib

import numpy as np

from . import steady
from .bundle import Bundle, BundleError

MFU = ("mfu_causal", "mfu_palm", "mfu_total", "sol")
RATIOS = ("ratio_limit", "ratio_limit_same", "ratio_pytorch", "ratio_pytorch_same")


def _need(value, path, what):
    if value is None or value == "":
        raise BundleError(f"'{path}' has no {what}, which a campaign's row needs")
    return value


def _key(config, path, section, name, default=None):
    value = config.get(section, {}).get(name, default) if isinstance(config.get(section, {}), dict) else None
    return _need(value, path, f"{section}.{name} in /config/toml")


def _state(config, path):
    weights = _key(config, path, "train", "storage")
    peer = config.get("peer", {})
    master = peer.get("master") or _key(config, path, "optimizer", "master")
    return {
        "weights": weights,
        "gradients": _key(config, path, "train", "gradients"),
        # f32 weights need no master beside them.
        "master": "none" if weights == "f32" else master,
        "moments": _key(config, path, "optimizer", "moments"),
    }


def _clock(bundle, first, end):
    """Mean SM clock over the steady window, or over all samples when steps are not on the telemetry's clock; MHz."""
    gpu, steps = bundle.table("/telemetry/gpu"), bundle.table("/samples/steps")
    clocks = gpu.get("sm_clock")
    if clocks is None or not np.isfinite(clocks).any() or "time" not in gpu:
        return None
    if "time" in steps and 0 <= first < end <= len(steps["time"]):
        inside = steady.in_window(gpu, steps["time"], steps["step_time"], first, end)
        clocks = clocks[inside] if np.isfinite(clocks[inside]).any() else clocks
    return float(np.nanmean(clocks))


def _power(bundle, energy, rate):
    if energy is not None:
        return energy * rate
    power = bundle.table("/telemetry/gpu").get("power")
    return float(np.nanmean(power)) if power is not None and np.isfinite(power).any() else None


def _plan(bundle, part, name):
    """A value of mylos' plan, or None: peers have no /plan/json."""
    section = bundle.plan().get(part)
    return section.get(name) if isinstance(section, dict) else None


def _parameters(bundle):
    return bundle.attribute("/plan", "parameters", _plan(bundle, "parameters", "total"))


def _recompute_blocks(bundle, config):
    """In how many blocks the policy holds; 0: in all, also when the plan names their number."""
    blocks = int(_plan(bundle, "execution", "recompute_blocks") or 0)
    return 0 if blocks == config.get("model", {}).get("layers") else blocks


def row_of(path):
    """One bundle as a row, or BundleError saying what is in the way."""
    bundle = Bundle(path)
    kind = bundle.attribute("/", "kind")
    if kind not in ("train", "peer"):
        raise BundleError(f"'{path}' is of kind '{kind}'; a campaign's rows are train and peer bundles")
    if not bundle.attribute("/", "complete"):
        raise BundleError(f"'{path}' is not complete (status: {bundle.attribute('/', 'status', 'unknown')})")
    config = bundle.config()

    def number(name):
        return _need(bundle.number(name), path, name)

    first, end = int(number("/summary/steady_window_first")), int(number("/summary/steady_window_end"))
    energy = bundle.number("/derived/energy_per_token")
    steps = bundle.table("/samples/steps")
    rate = number("/summary/tokens_per_s_median")
    if not math.isfinite(rate) or rate <= 0:
        raise BundleError(f"'{path}': tokens_per_s_median is {rate}")
    peer = config.get("peer", {})
    return {
        "file": pathlib.Path(path).name,
        "name": pathlib.Path(path).name.split(".")[0],
        "system": bundle.attribute("/", "system", "mylos"),
        "mode": peer.get("mode", ""),
        "call": bundle.attribute("/provenance", "call", ""),
        "note": bundle.text("/provenance/note"),
        "created": bundle.attribute("/", "created", ""),
        "device": _need(bundle.attribute("/hardware", "device"), path, "attribute device of /hardware"),
        "commit": bundle.attribute("/provenance", "commit", ""),
        "parameters": int(_need(_parameters(bundle), path, "number of parameters in /plan")),
        "sequence": _key(config, path, "train", "sequence"),
        # The plan knows what "auto" became.
        "recompute": _plan(bundle, "execution", "recompute") or _key(config, path, "train", "recompute"),
        "recompute_blocks": _recompute_blocks(bundle, config),
        "batch": _key(config, path, "train", "batch"),
        "accumulation": _key(config, path, "train", "accumulation"),
        "state": _state(config, path),
        "deterministic": bool(_key(config, path, "train", "deterministic", True)),
        "steps": int(end - first),
        "tokens_per_s": rate,
        "tokens_per_s_low": number("/summary/tokens_per_s_median_low"),
        "tokens_per_s_high": number("/summary/tokens_per_s_median_high"),
        **{name: bundle.number("/derived/" + name) for name in MFU},
        "peak_memory": number("/summary/device_memory_peak"),
        "energy_per_token": energy,
        "power": _power(bundle, energy, rate),
        "data_wait": bundle.number("/summary/data_wait_fraction"),
        "sm_clock": _clock(bundle, first, end),
        "losses": {int(s): float(x) for s, x in zip(steps.get("step", []), steps.get("loss", []))},
    }


def compare(rows):
    """Adds ratios to each row, within its call, model and sequence: `ratio_limit` (nothing recomputed), `ratio_limit_same` and
    `ratio_pytorch_same` (the same recomputation), `ratio_pytorch` (its fastest)."""
    for row in rows:
        same = [
            r
            for r in rows
            if row["call"] and all(r[k] == row[k] for k in ("call", "parameters", "sequence", "device"))
        ]
        limits = [r["tokens_per_s"] for r in same if r["system"] == "limit" and r["recompute"] == "none"]
        best = [r["tokens_per_s"] for r in same if r["system"] == "pytorch"]
        alike = [r for r in same if r["recompute"] == row["recompute"] and not row["recompute_blocks"]]
        row["ratio_limit"] = row["tokens_per_s"] / limits[0] if limits else None
        row["ratio_pytorch"] = row["tokens_per_s"] / max(best) if best else None
        for system in ("limit", "pytorch"):
            others = [r["tokens_per_s"] for r in alike if r["system"] == system]
            row[f"ratio_{system}_same"] = row["tokens_per_s"] / max(others) if others else None


def read(folder, call=None):
    """Rows of all bundles in a folder (or its results/), a line for each file that is wrong, and one for each that is no row."""
    folder = pathlib.Path(folder)
    place = folder / "results" if (folder / "results").is_dir() else folder
    rows, problems, notes = [], [], []
    for path in sorted(place.glob("*.h5")):
        if path.name.endswith(".weights.h5") or (call and f".{call}." not in path.name):
            continue
        try:
            row = row_of(path)
            if len(row["losses"]) > 1:
                rows.append(row)
            else:
                notes.append(f"'{path}': {'one step' if row['losses'] else 'no step'}: not a row")
        except (BundleError, ValueError, TypeError, AttributeError) as error:
            problems.append(str(error) if isinstance(error, BundleError) else f"'{path}' has a value of the wrong type: {error}")
    order = {"limit": 0, "pytorch": 1, "mylos": 2}
    rows.sort(key=lambda r: (-r["parameters"], r["sequence"], r["call"], order.get(r["system"], 3), -r["tokens_per_s"]))
    compare(rows)
    return rows, problems, notes


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
