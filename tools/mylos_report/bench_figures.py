"""Figures of component benchmarks from their raw samples (src/measure/bench_record.cpp): what /derived/cases and /derived/rooflines must be.

    cases(bundle)      # a dict a case: texts and numbers of /cases, and the figures computed from /samples/calls
    problems(bundle)   # a line for each case or number that the samples do not give
"""

import functools
import math

import numpy as np

from . import sample_interval
from .bundle import BundleError, of_bundle

CLOSE = 1e-9
TEXTS = ("name", "component", "dtype", "check", "no_check", "skipped")
NUMBERS = ("on_device", "flops", "bytes", "items", "error", "bound")
FIGURES = ("samples", "median", "mad", "median_low", "median_high", "flop_rate", "byte_rate", "item_rate", "sm_clock", "roofline", "share")


def _read(bundle):
    columns = {name: bundle.texts(f"/cases/{name}") for name in TEXTS} | {name: bundle.datasets[f"/cases/{name}"].tolist() for name in NUMBERS}
    if len({len(values) for values in columns.values()}) != 1:
        raise BundleError(f"'{bundle.path}': the columns of /cases differ in length")
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def _samples(bundle, count):
    """Of each case: (times that count, their clocks, all there are)."""
    calls = {name: bundle.datasets[f"/samples/calls/{name}"] for name in ("case", "time", "sm_clock", "rejected")}
    case, time = calls["case"], calls["time"]
    if not np.isin(case, np.arange(count)).all():
        raise BundleError(f"'{bundle.path}': /samples/calls/case names a case that is not there")
    bad = np.flatnonzero(~(np.isfinite(time) & (time > 0)))
    if len(bad):
        raise BundleError(f"'{bundle.path}': /samples/calls/time, row {bad[0]}: {time[bad[0]]}; a time is finite and above 0")
    if not np.isin(calls["rejected"], (0, 1)).all():
        raise BundleError(f"'{bundle.path}': /samples/calls/rejected holds other than 0 and 1")
    for i in range(count):
        kept = (case == i) & (calls["rejected"] == 0)
        yield time[kept], calls["sm_clock"][kept], int(np.count_nonzero(case == i))


def _rate(amount, seconds):
    return amount / seconds if amount > 0 else math.nan


def _roofline(case, rates):
    """Seconds that a case takes at least, or NaN where a limit is not known."""
    limits = [(case["bytes"], "memory" if case["on_device"] else "host_memory")]
    limits += [(case["flops"], case["dtype"])] if case["on_device"] else []
    needed = [(amount, rates.get(limit)) for amount, limit in limits if amount > 0]
    known = bool(needed) and all(rate for _, rate in needed)
    return max(amount / rate for amount, rate in needed) if known else math.nan


def _roofline_rates(bundle, found):
    """[(limit, rate)] that the cases named by /derived/rooflines reach."""
    limits, rows = bundle.texts("/derived/rooflines/limit"), bundle.datasets["/derived/rooflines/case"].astype(int).tolist()
    rates = []
    for limit, row in zip(limits, rows, strict=True):
        case = found[row]
        amount = case["bytes"] if limit in ("memory", "host_memory") else case["flops"]
        if limit not in ("memory", "host_memory", case["dtype"]) or bool(case["on_device"]) == (limit == "host_memory"):
            raise BundleError(f"'{bundle.path}': case '{case['name']}' cannot be the roofline of '{limit}'")
        rates.append((limit, _rate(amount, case["median"])))
    return rates


@functools.lru_cache(maxsize=32)
@of_bundle
def _figures(bundle):
    found, counts = _read(bundle), []
    for case, (times, clocks, count) in zip(found, _samples(bundle, len(found))):
        counts.append(count)
        case |= dict.fromkeys(FIGURES, math.nan) | {"samples": len(times)}
        if len(times):
            case |= sample_interval.figures(times)
            case |= {f"{what}_rate": _rate(case[f"{what}s"], case["median"]) for what in ("flop", "byte", "item")}
            known = clocks[np.isfinite(clocks)]
            case["sm_clock"] = float(np.median(known)) if len(known) else math.nan
    rates = _roofline_rates(bundle, found)
    for case in found:
        case["roofline"] = _roofline(case, dict(rates))
        case["share"] = case["roofline"] / case["median"]
    return found, counts, rates


def cases(bundle):
    return _figures(bundle)[0]


def _column(path, stated, computed):
    """A line for the first row that differs; it says what is wrong with the column."""
    if stated is None or len(stated) != len(computed):
        return [f"{path} is not there, or has other rows than /cases"]
    for row, (a, b) in enumerate(zip(stated.tolist(), computed)):
        alike = math.isnan(a) and math.isnan(b) if math.isnan(a) or math.isnan(b) else math.isclose(a, b, rel_tol=CLOSE)
        if not alike:
            return [f"{path}, row {row}: {a}; its samples give {b:.12g}"]
    return []


@of_bundle
def problems(bundle):
    found, counts, rates = _figures(bundle)
    lines = [f"/cases/name has '{c['name']}' twice" for i, c in enumerate(found) if c["name"] in {other["name"] for other in found[:i]}]
    for case, count in zip(found, counts):
        if bool(count) == bool(case["skipped"]):
            lines.append(f"case '{case['name']}' has {count} samples and '{case['skipped']}' as the reason why it was skipped")
        if not case["skipped"] and not case["no_check"] and not case["error"] <= case["bound"]:
            lines.append(f"case '{case['name']}' is wrong by {case['error']}, more than {case['bound']}")
    for name in FIGURES:
        lines += _column(f"/derived/cases/{name}", bundle.datasets.get(f"/derived/cases/{name}"), [case[name] for case in found])
    return lines + _column("/derived/rooflines/rate", bundle.datasets.get("/derived/rooflines/rate"), [rate for _, rate in rates])
