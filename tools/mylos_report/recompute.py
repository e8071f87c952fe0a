"""Holds every number that a bundle sums up against its own raw samples: `report --check` refuses a bundle where they disagree.

disagreements(bundle) returns one line for each value that the samples do not give. Runs (train, peer): run_figures.py and
shape_figures.py; benchmarks: bench_figures.py; profiles of kernels: kernel_figures.py. What only the machine knows (peak memory) is held
against bounds. Checksums find damage and this finds sums that do not follow; who changes samples and sums alike is found by neither.
"""

import math

import numpy as np

from . import bench_figures, kernel_figures, run_figures, shape_figures, steady
from .bundle import BundleError, of_bundle

CLOSE = 1e-9
ENERGY_CLOSE = 1e-6  # differences of a large counter
OF_ENERGY = ("/derived/energy_per_token", "/summary/power_mean")
# Bundles of peers have none of these.
OF_TRAIN = ("/summary/train_loss_last_10_mean", "/summary/data_wait_fraction", "/summary/power_mean", "/summary/sm_clock_median",
            "/summary/power_capped_share", "/derived/sol")  # fmt: skip


def _near(stated, value, close=CLOSE, slack=0.0):
    if math.isnan(stated) or math.isnan(value):
        return math.isnan(stated) and math.isnan(value)
    return math.isclose(stated, value, rel_tol=close, abs_tol=slack)


def _earlier_energy(bundle, figures):
    """What older bundles of peers state: one difference over the window, with the last sample for what came after it."""
    gpu, steps = bundle.table("/telemetry/gpu"), bundle.table("/samples/steps")
    first, end = (int(figures[f"/summary/steady_window_{name}"]) for name in ("first", "end"))
    used = np.interp(steady.span(steps["time"], steps["step_time"], first, end), gpu["time"], gpu["energy"])
    return float(used[1] - used[0]) / float(steps["tokens"][first:end].sum())


def _agrees(bundle, path, stated, figures):
    value = figures[path]
    if path in OF_ENERGY:
        return _near(stated, value, ENERGY_CLOSE) or (
            bundle.attribute("/", "kind") == "peer" and _near(stated, _earlier_energy(bundle, figures), ENERGY_CLOSE)
        )
    slack = 0.0
    if bundle.attribute("/", "kind") == "peer" and path.endswith(("_low", "_high")):
        # Older bundles of peers drew their resamples from another generator.
        low, high = (figures[f"/summary/tokens_per_s_median_{end}"] for end in ("low", "high"))
        slack = 0.25 * (high - low) + 1e-3 * figures["/summary/tokens_per_s_median"]
    return _near(stated, value, slack=slack)


def _peak_problems(bundle):
    """Peak memory is measured, not summed: it is above 0, and within the device and, once all is allocated, within what NVML saw in use."""
    peak, memory = bundle.number("/summary/device_memory_peak"), bundle.number("/hardware/device_memory")
    if peak is None:
        return []  # of a run that did not end; rows.py asks for it
    bounds = [("/hardware/device_memory", memory)] if memory and bundle.attribute("/hardware", "is_gpu") else []
    gpu, ends = bundle.table("/telemetry/gpu"), bundle.table("/samples/steps").get("time", [])
    if "memory_used" in gpu and len(ends) and np.isfinite(ends[0]):
        after = gpu["memory_used"][gpu["time"] > ends[0]]
        bounds += [("/telemetry/gpu/memory_used", after.max())] if len(after) and np.isfinite(after).all() else []
    if not peak > 0:
        return [f"/summary/device_memory_peak is {peak}; it is above 0"]
    return [f"/summary/device_memory_peak is {peak:.0f}, more than the {bound:.0f} of {name}" for name, bound in bounds if peak > bound]


@of_bundle
def _of_run(bundle):
    found = run_figures.raw_problems(bundle)
    if found:
        return found  # nothing follows from such samples
    figures = run_figures.figures(bundle)
    for path, value in figures.items():
        stated = bundle.number(path)
        if stated is None and bundle.attribute("/", "kind") == "peer" and path in OF_TRAIN:
            continue
        if stated is None or not _agrees(bundle, path, stated, figures):
            found.append(f"{path.removeprefix('/summary/').removeprefix('/derived/')} is {stated}; samples give {value:.12g}")
    unfounded = [p for p in sorted(bundle.datasets) if p.startswith(("/derived/", "/summary/power", "/summary/sm_clock")) and p not in figures]
    found += [f"{path} is {bundle.number(path)}; the samples give none" for path in unfounded]
    if figures:
        count = len(bundle.datasets["/samples/steps/step"])
        short = figures["/summary/steady_window_end"] - figures["/summary/steady_window_first"] < 10
        if bundle.attribute("/summary", "steady_window_rule") != steady.RULE or bool(bundle.attribute("/summary", "steady_window_is_short")) != short:
            found.append(f"attributes of /summary say another steady window than the rule gives for {count} steps")
    return found + _peak_problems(bundle) + shape_figures.plan_problems(bundle)


def disagreements(bundle):
    kind = bundle.attribute("/", "kind")
    try:
        if kind in ("train", "peer"):
            found = _of_run(bundle)
        elif kind == "bench":
            found = bench_figures.problems(bundle)
        elif kind == "profile" and kernel_figures.has_kernels(bundle):
            found = kernel_figures.problems(bundle) + shape_figures.plan_problems(bundle)
        else:
            found = []
    except BundleError as error:
        return [str(error)]
    return [f"'{bundle.path}': {what}" for what in found]
