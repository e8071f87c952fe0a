"""Holds what a bundle sums up (/summary, /derived) against its raw samples, by the rules of steady.py and docs/bundle.md.

disagreements(bundle) returns one line for each number that the samples do not give. The interval of a median is drawn by other random
numbers in C++ than here: its ends may differ by a quarter of its width and 0.1 % of the median.
"""

import math

import numpy as np

from . import steady

CLOSE = 1e-9


def _near(a, b, slack=0.0):
    return math.isclose(a, b, rel_tol=CLOSE, abs_tol=slack)


def _window(bundle, steps):
    first, end = (int(bundle.number(f"/summary/steady_window_{name}")) for name in ("first", "end"))
    count = len(steps["step_time"])
    # A peer without a device's clock leaves its last step out (peer_bundle.py).
    rules = {steady.window(n)[:2] for n in ({count, count - 1} if bundle.attribute("/", "kind") == "peer" else {count})}
    return first, end, [] if (first, end) in rules else [f"steady window [{first}, {end}); the rule gives {sorted(rules)}"]


def _median(bundle, rates):
    median, low, high = steady.median_interval(rates)
    stated = [bundle.number(f"/summary/tokens_per_s_median{end}") for end in ("", "_low", "_high")]
    slack = 0.25 * (high - low) + 1e-3 * median
    expected = (("", stated[0], median, 0.0), ("_low", stated[1], low, slack), ("_high", stated[2], high, slack))
    return [f"tokens_per_s_median{end} is {s}; samples give {v}" for end, s, v, bound in expected if s is None or not _near(s, v, bound)]


def _derived(bundle, rate):
    devices, found = bundle.attribute("/hardware", "devices", 1), []
    for name in steady.MFU:
        flops, stated = (bundle.number(f"/derived/{what}_{name}") for what in ("model_flops_per_token", "mfu"))
        peak = bundle.about.get(f"/derived/mfu_{name}", {}).get("peak_flops")
        if stated is None:
            continue
        if not peak or not flops or not _near(stated, flops * rate / (devices * peak)):
            found.append(f"mfu_{name} is {stated}; {flops} FLOPs a token at {rate} tokens/s and a peak of {peak} give another")
    return found


def _energy(bundle, steps, first, end):
    stated, value = bundle.number("/derived/energy_per_token"), energy(bundle)
    if stated is None or value is None:
        return []
    allowed = [value]
    if bundle.attribute("/", "kind") == "peer":
        # Older bundles of peers took one difference, with the last sample for what came after it.
        gpu, ends, durations = bundle.table("/telemetry/gpu"), steps["time"], steps["step_time"]
        used = np.interp(steady.span(ends, durations, first, end), gpu["time"], gpu["energy"])
        allowed.append(float(used[1] - used[0]) / float(steps["tokens"][first:end].sum()))
    near = any(math.isclose(stated, v, rel_tol=1e-6) for v in allowed)
    return [] if near else [f"energy_per_token is {stated}; samples give {value}"]


def energy(bundle):
    """J a token of the steady window from the samples; None without them."""
    steps, gpu = bundle.table("/samples/steps"), bundle.table("/telemetry/gpu")
    first, end = (int(bundle.number(f"/summary/steady_window_{name}")) for name in ("first", "end"))
    if "energy" not in gpu or "time" not in steps or not np.isfinite(steps["time"]).all() or not np.isfinite(gpu["energy"]).all():
        return None
    return steady.energy_per_token(gpu, steps["time"], steps["step_time"], steps["tokens"], first, end)


def disagreements(bundle):
    steps = bundle.table("/samples/steps")
    if "step_time" not in steps or not len(steps["step_time"]) or bundle.number("/summary/steady_window_end") is None:
        return []
    first, end, found = _window(bundle, steps)
    time, tokens = steps["step_time"][first:end], steps["tokens"][first:end]
    if not len(time):
        return [*found, "the steady window has no step"]
    rate = float(tokens.sum() / time.sum())
    stated = bundle.number("/summary/tokens_per_s")
    if stated is None or not _near(stated, rate):
        found.append(f"tokens_per_s is {stated}; samples give {rate}")
    found += _median(bundle, tokens / time) + _derived(bundle, rate) + _energy(bundle, steps, first, end)
    return [f"'{bundle.path}': {what}" for what in found]
