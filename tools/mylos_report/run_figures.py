"""Figures of a run (train, peer) from its raw samples: what docs/bundle.md says that /summary and /derived hold, by the rules of src/measure.

    raw_problems(bundle)    # a line for each raw value that no run can have: a step of no time, tokens that are not those of its batch
    figures(bundle)         # {path of the dataset: value}, of what the samples give; {} without a step

BundleError where samples are not there, or are such that nothing follows from them.
"""

import numpy as np

from . import sample_interval, shape_figures, steady
from .bundle import BundleError, of_bundle

POWER_CAP = 4  # of throttle_reasons
COLUMNS = ("step", "loss", "tokens", "step_time", "data_wait", "tokens_per_s")


def steps_of(bundle):
    """The columns of /samples/steps, all of one length."""
    steps = bundle.table("/samples/steps")
    missing = [c for c in COLUMNS if c not in steps]
    if missing:
        raise BundleError(f"'{bundle.path}' has no /samples/steps/{missing[0]}")
    if len({len(values) for values in steps.values()}) > 1:
        raise BundleError(f"'{bundle.path}': the columns of /samples/steps differ in length")
    return steps


@of_bundle
def raw_problems(bundle):
    steps = steps_of(bundle)
    found = []

    def rule(name, bad, why):
        rows = np.flatnonzero(bad)
        if len(rows):
            found.append(f"/samples/steps/{name}, row {rows[0]}: {steps[name][rows[0]]}; {why}")

    time, tokens = steps["step_time"], steps["tokens"]
    rule("step_time", ~(np.isfinite(time) & (time > 0)), "a step takes a finite time above 0")
    rule("tokens", ~(np.isfinite(tokens) & (tokens > 0)), "a step has tokens")
    if found:
        return found
    rule("step", np.concatenate([steps["step"][:1] % 1 != 0, np.diff(steps["step"]) != 1]), "each step is the one after that before it")
    rule("tokens_per_s", ~np.isclose(steps["tokens_per_s"], tokens / time, rtol=1e-9, atol=0), "tokens over step_time are another")
    rule("data_wait", ~(np.isfinite(steps["data_wait"]) & (steps["data_wait"] >= 0)), "waiting takes a finite time, 0 or more")
    if "valid_tokens" in steps:
        rule("valid_tokens", ~((steps["valid_tokens"] >= 0) & (steps["valid_tokens"] <= tokens)), "they are among the step's tokens")
    expected = shape_figures.tokens_per_step(bundle)
    rule("tokens", tokens != expected if expected else np.zeros(len(tokens), bool), f"batch, accumulation and sequence give {expected}")
    ends = steps.get("time")
    if ends is not None and np.isfinite(ends).all():
        early = np.diff(ends) < time[1:] - 1e-6 * np.maximum(1, ends[1:])
        rule("time", np.concatenate([[False], early]), "it ends before its step_time has passed since the step before")
    return found


def window(bundle, count):
    """First row and the one after the last of the steady window. A peer without a device's clock leaves its last step out (peer_bundle.py)."""
    first, end, _ = steady.window(count)
    if bundle.attribute("/", "kind") == "peer" and bundle.number("/summary/steady_window_end") == count - 1 and count > 4:
        first, end, _ = steady.window(count - 1)
    return first, end


def peak(bundle):
    """Dense peak of the device for the run's products, FLOP/s, or 0. A peer's autocast runs those of fp32 weights in bf16, which only the peak it
    states says."""
    device, storage = bundle.attribute("/hardware", "device", ""), bundle.config().get("train", {}).get("storage")
    if storage and bundle.attribute("/", "kind") == "train":
        return steady.peak(device, storage)[0]
    stated = bundle.about.get("/derived/mfu_causal", {}).get("peak_flops")
    known = [steady.peak(device, weights)[0] for weights in ("bf16", "f32")]
    return stated if stated in known else steady.peak(device, storage)[0]


def _losses(bundle, steps):
    losses, evaluation = steps["loss"], bundle.table("/samples/evaluation")
    found = {"train_loss_last": losses[-1], "train_loss_last_10_mean": losses[-10:].mean()}
    if len(evaluation.get("loss", ())) and len(evaluation.get("bits_per_byte", ())):
        found |= {"validation_loss_last": evaluation["loss"][-1], "validation_bits_per_byte_last": evaluation["bits_per_byte"][-1]}
    return found


def _telemetry(bundle, steps, first, end):
    """(summary, energy a token) of the GPU over the steady window."""
    gpu, ends = bundle.table("/telemetry/gpu"), steps.get("time")
    if "time" not in gpu or ends is None or not np.isfinite(ends[-1]):
        return {}, None
    inside = steady.in_steps(gpu["time"], ends, steps["step_time"], first, end)
    if np.count_nonzero(inside) < 2:
        return {}, None
    found, clocks, reasons = {}, gpu.get("sm_clock"), gpu.get("throttle_reasons")
    if clocks is not None and np.isfinite(clocks[inside]).any():
        found["sm_clock_median"] = np.nanmedian(clocks[inside])
    if reasons is not None:
        found["power_capped_share"] = np.mean(np.nan_to_num(reasons[inside]).astype(np.uint64) & np.uint64(POWER_CAP) != 0)
    used = steady.energy(gpu, ends, steps["step_time"], steps["tokens"], first, end)
    if used is None:
        return found, None
    joules, seconds, tokens = used
    return found | {"power_mean": joules / seconds}, joules / tokens


def _speed_of_light(bundle, devices):
    """Seconds of a step's FLOPs at the peak of their dtypes, or None."""
    flops, dtypes = bundle.datasets.get("/plan/flop_ledger/flops"), bundle.texts("/plan/flop_ledger/dtype")
    if flops is None or len(flops) != len(dtypes):
        return None
    device = bundle.attribute("/hardware", "device", "")
    peaks = {dtype: steady.peak(device, dtype)[0] if dtype in ("bf16", "f32") else 0.0 for dtype in dtypes}
    if any(f > 0 and not peaks[d] for f, d in zip(flops, dtypes)):
        return None
    return sum(f / (peaks[d] * devices) for f, d in zip(flops, dtypes) if f > 0) or None


@of_bundle
def figures(bundle):
    steps = steps_of(bundle)
    count = len(steps["step"])
    if not count:
        return {}
    first, end = window(bundle, count)
    time, tokens, rates = (steps[name][first:end] for name in ("step_time", "tokens", "tokens_per_s"))
    if not (np.isfinite(rates).all() and np.isfinite(time).all() and (time > 0).all()):
        raise BundleError(f"'{bundle.path}': a step of the steady window has no finite time above 0, so no speed follows")
    rate, devices = float(tokens.sum() / time.sum()), int(bundle.attribute("/hardware", "devices", 1))
    median, low, high = sample_interval.bootstrap(rates)
    of_gpu, energy = _telemetry(bundle, steps, first, end)
    summary = {"steps": count, "tokens": steps["tokens"].sum(), **_losses(bundle, steps), "steady_window_first": first, "steady_window_end": end,
               "tokens_per_s": rate, "tokens_per_s_median": median, "tokens_per_s_median_low": low, "tokens_per_s_median_high": high,
               "data_wait_fraction": steps["data_wait"][first:end].sum() / time.sum(), **of_gpu}  # fmt: skip
    derived = {"energy_per_token": energy} if energy is not None else {}
    best = peak(bundle)
    for name, flops in shape_figures.flops_per_token(bundle).items():
        derived |= {f"model_flops_per_token_{name}": flops, f"model_flop_rate_{name}": flops * rate / devices}
        derived |= {f"mfu_{name}": flops * rate / (devices * best)} if best else {}
    light = _speed_of_light(bundle, devices)
    derived |= {"sol": light * (end - first) / time.sum()} if light and best else {}
    return {f"/summary/{k}": float(v) for k, v in summary.items()} | {f"/derived/{k}": float(v) for k, v in derived.items()}
