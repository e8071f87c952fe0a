"""What src/measure/mfu.cpp and telemetry_summary.cpp say a steady state, a peak and the energy of a run are."""

import numpy as np

RULE = "all steps after the first max(3, min(100, 20 % of the steps)); a run of 4 steps or fewer counts whole"
INTERVAL = "95 % percentile bootstrap, 2,000 resamples"
MFU = {
    "causal": "6·P + 6·L·H·h·S FLOPs a token; P: weights in matrix products, without the input embedding",
    "palm": "6·P + 12·L·H·h·S FLOPs a token; P: weights in matrix products, without the input embedding",
    "total": "6·P_all + 12·L·H·h·S FLOPs a token; P_all: all parameters",
}
# Words of the device's name, peak in bf16 and in tf32 (FLOP/s, dense), source; the first row that fits counts.
PEAKS = (
    (("H200", "NVL"), 835.5e12, 417.5e12, "NVIDIA H200 data sheet, NVL column"),
    (("H200",), 989.4e12, 494.7e12, "NVIDIA H200 data sheet; H100 architecture white paper, table 2"),
    (("H100", "PCIe"), 756e12, 378e12, "H100 architecture white paper, table 2"),
    (("H100", "HBM3"), 989.4e12, 494.7e12, "H100 architecture white paper, table 2"),
    (("H100", "SXM"), 989.4e12, 494.7e12, "H100 architecture white paper, table 2"),
    (("A100", "SXM", "80GB"), 312e12, 156e12, "NVIDIA A100 data sheet"),
    (("A100", "SXM", "40GB"), 312e12, 156e12, "NVIDIA A100 data sheet"),
)


def window(steps):
    """First row, row after the last, and whether fewer than 10 rows are left."""
    skip = 0 if steps <= 4 else max(3, min(100, steps // 5))
    return skip, steps, steps - skip < 10


def peak(device, weights):
    """Dense peak for products of bf16 or f32 weights, and its source; 0 when the device is not known."""
    if "MIG" in device or "GRID" in device:
        return 0.0, ""
    for words, bf16, tf32, source in PEAKS:
        if all(word in device for word in words):
            return (bf16 if weights == "bf16" else tf32), source
    return 0.0, ""


def span(ends, durations, first, end):
    """Begin and end of the steps [first, end) on the clock of `ends`."""
    return ends[first] - durations[first], ends[end - 1]


def in_window(gpu, ends, durations, first, end):
    """Which samples of the telemetry lie in the steps [first, end)."""
    begin, last = span(ends, durations, first, end)
    return (gpu["time"] >= begin) & (gpu["time"] <= last)


def in_steps(times, ends, durations, first, end):
    """Which of the times lie in one of the steps [first, end), but not between two of them."""
    begins, ends = (ends - durations)[first:end], ends[first:end]
    step = np.minimum(np.searchsorted(ends, times, "left"), len(ends) - 1)
    return (times > begins[step]) & (times <= ends[step])


def energy(gpu, ends, durations, tokens, first, end):
    """(J, s, tokens) of the steps [first, end), from cumulative energy between samples; a step that no two samples enclose counts in none of
    the three. None when fewer than two samples lie in the steps, or no energy is counted."""
    times, joules = gpu.get("time"), gpu.get("energy")
    if joules is None or np.count_nonzero(in_steps(times, ends, durations, first, end)) < 2:
        return None
    begins, ends = (ends - durations)[first:end], ends[first:end]
    used = np.interp(ends, times, joules) - np.interp(begins, times, joules)
    inside = (begins >= times[0]) & (ends <= times[-1]) & np.isfinite(used)
    return (float(used[inside].sum()), float((ends - begins)[inside].sum()), float(tokens[first:end][inside].sum())) if inside.any() else None
