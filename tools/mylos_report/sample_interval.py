"""What src/measure/statistics.cpp says of samples, for `bench` bundles that are not written by mylos: the same numbers, which `mylos validate` demands.

Median, median absolute deviation, and the median's 95 % interval: a bootstrap with Philox as the source of chance, widened by the root of the
autocorrelation time of the samples' ranks, and cut off at 0 when no sample is below.
"""

import numpy as np

RESAMPLES = 2000
ORDER_STATISTICS_FROM = 2048
SAMPLING = 4  # Purpose::sampling of src/tensor/philox.hpp


def philox(step, index):
    """Words [..., 4] of Philox4x32-10 for counters (index, step), seed 0 (src/tensor/philox.hpp)."""
    low = np.uint64(0xFFFFFFFF)
    word = lambda v: np.asarray(v, np.uint64) & low  # noqa: E731
    step, index = np.broadcast_arrays(word(step), np.asarray(index, np.uint64))
    c = [index & low, index >> np.uint64(32), step, np.full_like(step, SAMPLING)]
    k = [0, 0]
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(q >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), q & low, (p >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, -1)


def ranks(values):
    """From 0 on; equal values share their mean rank."""
    ordered = np.sort(values)
    first, end = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return 0.5 * (first + end - 1)


def autocorrelation_time(values):
    n = len(values)
    if n < 8:
        return 1.0
    r = ranks(values) - 0.5 * (n - 1)
    covariance = lambda lag: float(np.dot(r[: n - lag], r[lag:]))  # noqa: E731
    variance = covariance(0)
    if variance <= 0:
        return 1.0
    tau = -1.0
    for lag in range(0, n // 2 - 1, 2):
        pair = (covariance(lag) + covariance(lag + 1)) / variance
        if pair <= 0:
            break
        tau += 2 * pair
    tau = min(max(tau, 1.0), 0.25 * n)
    return 1 + (tau - 1) * n / (n - 2 * tau)


def bootstrap(values):
    """Median and its 95 % interval for independent values."""
    ordered, n = np.sort(values), len(values)
    if n >= ORDER_STATISTICS_FROM:
        spread = 1.959964 * 0.5 * np.sqrt(n)
        return float(np.median(ordered)), ordered[int(max(0, np.floor(n / 2 - spread)))], ordered[int(min(n - 1, np.ceil(n / 2 + spread)))]
    words = philox(np.arange(RESAMPLES)[:, None], np.arange(0, n, 4)[None, :]).reshape(RESAMPLES, -1)[:, :n]
    medians = np.sort(np.median(ordered[((words * np.uint64(n)) >> np.uint64(32)).astype(np.int64)], axis=1))
    return float(np.median(ordered)), medians[RESAMPLES // 40], medians[RESAMPLES * 39 // 40 - 1]


def figures(values):
    """median, mad, low, high of values in the order in which they were measured."""
    values = np.asarray(values, np.float64)
    median, low, high = bootstrap(values)
    widen = np.sqrt(autocorrelation_time(values))
    lower = median - widen * (median - low)
    if values.min() >= 0:
        lower = max(lower, 0.0)
    return {"median": median, "mad": float(np.median(np.abs(values - median))), "median_low": lower,
            "median_high": median + widen * (high - median)}  # fmt: skip
