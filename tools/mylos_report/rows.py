"""Rows of a folder of bundles (train and peer), one each, compared within the call that measured them.

    rows, problems, notes = read(folder)   # problems: one line for each file that is not counted, and why; notes: for each that is no row

Speeds of different calls are on different days, cards or clocks, so ratios to the limit (nothing recomputed) and to the best
PyTorch row are taken within one call, model and sequence length, and are missing when that call has no such row. A run of one step,
which only prepares weights, is no row. Speeds, MFU, energy and losses are computed from the raw samples (run_figures.py), never taken from what the
bundle sums up.
"""

import math
import pathlib
import re

import numpy as np

from . import run_figures, steady
from .bundle import ODD, Bundle, BundleError

KINDS = ("train", "peer")
MFU = ("mfu_causal", "mfu_palm", "mfu_total", "sol")
RATIOS = ("ratio_limit", "ratio_limit_same", "ratio_pytorch", "ratio_pytorch_same")


class OtherKind(Exception):
    """A bundle that is no row, though nothing is wrong with it."""


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
    """Mean over the steady window, W."""
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


def _hardware(bundle):
    """Devices as bundles of mylos and of peers name them."""
    about = bundle.attributes.get("/hardware", {})
    environment = dict(zip(bundle.texts("/provenance/environment/name"), bundle.texts("/provenance/environment/value")))
    return {
        "is_gpu": bool(about.get("is_gpu")),
        "devices": int(about.get("devices", 1)),
        "nodes": int(environment.get("SLURM_NNODES", 1)),
        "cpu": about.get("cpu", ""),
        "cpu_cores": about.get("cpu_cores"),
        "threads": about.get("threads"),
        "power_limit": about.get("power_limit_w", about.get("power_limit")),
        "driver": about.get("driver_version") or _version_in(about.get("driver", "")),
        "uuid": about.get("uuid", ""),
        "device_memory": bundle.number("/hardware/device_memory"),
    }


def _version_in(text):
    """The version in what a driver says of itself, where NVML was not asked: "NVRM version: ... 580.159.04 ..."."""
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else text


def _software(bundle):
    return dict(zip(bundle.texts("/provenance/libraries/name"), bundle.texts("/provenance/libraries/version")))


def _planned_memory(bundle):
    sizes = bundle.datasets.get("/plan/memory/bytes")
    return int(sizes.sum()) if sizes is not None and sizes.size else None


def about(bundle):
    """When, where and by what a bundle of any kind came about."""
    path = bundle.path
    return {
        "system": bundle.attribute("/", "system", "mylos"),
        "call": bundle.attribute("/provenance", "call", ""),
        "created": bundle.attribute("/", "created", ""),
        "device": _need(bundle.attribute("/hardware", "device"), path, "attribute device of /hardware"),
        "commit": bundle.attribute("/provenance", "commit", ""),
        "dirty": bool(bundle.attribute("/provenance", "dirty", 0)),
        "software": _software(bundle),
        "hardware": _hardware(bundle),
        "data": bundle.attribute("/plan", "data", "").strip(),
    }


def row_of(path):
    """One bundle as a row, BundleError saying what is in the way, or OtherKind."""
    bundle = Bundle(path)
    kind = bundle.attribute("/", "kind")
    if kind not in KINDS:
        raise OtherKind(f"'{path}': of kind '{kind}': not a row")
    if not bundle.attribute("/", "complete"):
        raise BundleError(f"'{path}' is not complete (status: {bundle.attribute('/', 'status', 'unknown')})")
    config = bundle.config()

    figures = run_figures.figures(bundle)
    if not figures:
        raise OtherKind(f"'{path}': no step: not a row")
    first, end = (int(figures[f"/summary/steady_window_{name}"]) for name in ("first", "end"))
    energy, steps = figures.get("/derived/energy_per_token"), bundle.table("/samples/steps")
    rate = figures["/summary/tokens_per_s_median"]
    if not math.isfinite(rate) or rate <= 0:
        raise BundleError(f"'{path}': its samples give a median of {rate} tokens/s")
    peer = config.get("peer", {})
    return {
        "file": pathlib.Path(path).name,
        "name": pathlib.Path(path).name.split(".")[0],
        "mode": peer.get("mode", ""),
        "note": bundle.text("/provenance/note"),
        **about(bundle),
        "model": config.get("model", {}),
        "documents": bool(bundle.attribute("/derived", "documents")) or bool(config.get("data", {}).get("documents")),
        "window": (first, end, len(steps["step"])),
        "window_rule": bundle.attribute("/summary", "steady_window_rule", ""),
        "step_time": float(np.median(steps["step_time"][first:end])),
        "mean_step_time": float(np.mean(steps["step_time"][first:end])),
        "planned_memory": _planned_memory(bundle),
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
        "tokens_per_s_low": figures["/summary/tokens_per_s_median_low"],
        "tokens_per_s_high": figures["/summary/tokens_per_s_median_high"],
        **{name: figures.get("/derived/" + name) for name in MFU},
        "peak_memory": _need(bundle.number("/summary/device_memory_peak"), path, "/summary/device_memory_peak"),
        "energy_per_token": energy,
        "power": _power(bundle, energy, figures["/summary/tokens_per_s"]),
        "data_wait": figures["/summary/data_wait_fraction"] if kind == "train" else None,
        "sm_clock": _clock(bundle, first, end),
        "losses": {int(s): float(x) for s, x in zip(steps["step"], steps["loss"])},
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


def read(folder, call=None, leave_out=lambda path: ""):
    """Rows of all bundles in a folder (or its results/), a line for each file that is wrong, and one for each that is no row, or that
    `leave_out` has a reason against."""
    folder = pathlib.Path(folder)
    place = folder / "results" if (folder / "results").is_dir() else folder
    rows, problems, notes = [], [], []
    for path in sorted(place.glob("*.h5")):
        if path.name.endswith(".weights.h5") or (call and f".{call}." not in path.name):
            continue
        if why := leave_out(path):
            notes.append(f"'{path}': {why}: left out")
            continue
        try:
            row = row_of(path)
            if len(row["losses"]) > 1:
                rows.append(row)
            else:
                notes.append(f"'{path}': one step: not a row")
        except OtherKind as other:
            notes.append(str(other))
        except (BundleError, *ODD) as error:
            problems.append(str(error) if isinstance(error, BundleError) else f"'{path}' has a value of the wrong type: {error}")
    order = {"limit": 0, "pytorch": 1, "mylos": 2}
    rows.sort(key=lambda r: (-r["parameters"], r["sequence"], r["call"], order.get(r["system"], 3), -r["tokens_per_s"]))
    compare(rows)
    return rows, problems, notes
