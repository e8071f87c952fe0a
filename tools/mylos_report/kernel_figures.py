"""Figures of a profile of kernels from its raw records (src/measure/kernel_trace_table.cpp): what /derived/kernels, /derived/categories and
/summary must be.

    has_kernels(bundle)
    figures(bundle)    # (a dict a row of /derived/kernels, a dict a category with idle last, {name of /summary: value}), of one step
    problems(bundle)   # a line for each number that the records do not give
"""

import functools
import heapq
import math

import numpy as np

from .bundle import BundleError, of_bundle

CATEGORIES = ("products", "attention", "optimizer", "memory-bound", "communication", "copy, set")
KERNEL, COPY, SET = 0, 1, 2
CLOSE, SLACK = 1e-6, 2e-8  # records' ends are exact to a nanosecond


def has_kernels(bundle):
    return "/samples/kernels/begin" in bundle.datasets


def _any(text, *parts):
    return any(part in text for part in parts)


def _is_own_product(name):
    return _any(name, "mylos::kernels::hopper::tiles", "matmul::reference", "cutlass")


def category_of(name, kind, region):
    """By kind, name of the kernel, and the region mylos::PHASE::OP that queued it."""
    if kind in (COPY, SET):
        return "copy, set"
    if _any(name, "ncclDevKernel", "ncclKernel"):
        return "communication"
    if not region:
        if _any(name, "sdpa", "fmha", "flash", "attention"):
            return "attention"
        return "products" if _is_own_product(name) or _any(name, "gemm", "nvjet", "splitK", "xmma") else "memory-bound"
    _, phase, op = region.split("::", 2)
    if phase == "optimizer":
        return "optimizer"
    if op == "attention":
        return "attention"
    if op.startswith(("matmul/", "linear_cross_entropy")):
        return "memory-bound" if "mylos::" in name and not _is_own_product(name) else "products"
    return "memory-bound"


def _nanoseconds(bundle, path):
    return np.rint(1e9 * bundle.datasets[path]).astype(np.int64)


def _sweep(window, records, rows):
    """Adds to the rows what each has of one step, and returns its idle time, in ns: an instant belongs to the first category that runs in it."""
    low, high = window
    edges = []
    for rank, begin, end, row, index in records:
        a, b = max(begin, low), min(end, high)
        if a < b:
            rows[row]["time"] += b - a
            edges += [(a, True, (rank, begin, index), row), (b, False, (rank, begin, index), row)]
    edges.sort(key=lambda edge: edge[0])
    running, gone, idle, at = [], set(), 0, low
    for time, opens, key, row in edges:
        while running and running[0][0] in gone:
            gone.discard(heapq.heappop(running)[0])
        if running:
            rows[running[0][1]]["exposed"] += time - at
        else:
            idle += time - at
        at = time
        if opens:
            heapq.heappush(running, (key, row))
        else:
            gone.add(key)
    return idle + high - at


@functools.lru_cache(maxsize=8)
@of_bundle
def figures(bundle):
    names, regions = (bundle.texts(f"/derived/kernels/{name}") for name in ("name", "region"))
    begin, end = (_nanoseconds(bundle, f"/samples/kernels/{name}") for name in ("begin", "end"))
    kernel, kind = (bundle.datasets[f"/samples/kernels/{name}"].astype(int) for name in ("kernel", "kind"))
    windows = np.stack([_nanoseconds(bundle, f"/samples/steps/{name}") for name in ("begin", "end")], 1)
    steps = len(windows)
    ordered = steps and (windows[:, 0] < windows[:, 1]).all() and (windows[1:, 0] >= windows[:-1, 1]).all()
    if not ordered or len(names) != len(regions) or len(kernel) and not (0 <= kernel.min() and kernel.max() < len(names)):
        raise BundleError(f"'{bundle.path}': its steps do not follow each other, or records name kernels that are not there")
    rows = [{"name": n, "region": r, "category": "", "calls": 0, "time": 0, "exposed": 0} for n, r in zip(names, regions)]
    for row, k in set(zip(kernel.tolist(), kind.tolist())):
        rows[row]["category"] = category_of(names[row], k, regions[row])
    ranks = [CATEGORIES.index(r["category"]) if r["category"] else 0 for r in rows]
    idle = 0
    for low, high in windows.tolist():
        ends_in = (end > low) & (end <= high)
        inside = np.flatnonzero((end > low) & ((begin < high) | ends_in))
        for row in kernel[ends_in]:
            rows[row]["calls"] += 1
        records = [(ranks[kernel[i]], int(begin[i]), int(end[i]), int(kernel[i]), int(i)) for i in inside]
        idle += _sweep((low, high), records, rows)
    for row in rows:
        row |= {"calls": row["calls"] / steps, "time": row["time"] * 1e-9 / steps, "exposed": row["exposed"] * 1e-9 / steps}
    sums = [{"category": c, **{k: sum(r[k] for r in rows if r["category"] == c) for k in ("calls", "time", "exposed")}} for c in CATEGORIES]
    idle *= 1e-9 / steps
    outside = sum(r["time"] for r in rows if not r["region"] and r["category"] != "copy, set")
    summary = {"step_time": float((windows[:, 1] - windows[:, 0]).sum()) * 1e-9 / steps, "idle": idle, "outside_regions": outside}
    return rows, [*sums, {"category": "idle", "calls": 0, "time": idle, "exposed": idle}], summary


@of_bundle
def problems(bundle):
    rows, sums, summary = figures(bundle)
    found, steps = [], bundle.table("/samples/steps")
    if not np.allclose(steps["step_time"], steps["end"] - steps["begin"], rtol=CLOSE, atol=SLACK) or (np.diff(steps["step"]) != 1).any():
        found.append("/samples/steps/step_time is not what begin and end give, or a step is missing")
    for table, computed in (("kernels", rows), ("categories", sums)):
        at = f"/derived/{table}"
        if bundle.texts(f"{at}/category") != [row["category"] for row in computed]:
            found.append(f"{at}/category is not what kinds, names and regions give")
        for column in ("calls", "time", "exposed"):
            stated = bundle.datasets.get(f"{at}/{column}")
            if stated is None or len(stated) != len(computed):
                found.append(f"{at}/{column} is not there, or has other rows than its table")
                continue
            differing = (i for i, row in enumerate(computed) if not math.isclose(stated[i], row[column], rel_tol=CLOSE, abs_tol=SLACK))
            row = next(differing, None)
            if row is not None:
                found.append(f"{at}/{column}, row {row}: {stated[row]}; its records give {computed[row][column]:.12g}")
    for name, value in summary.items():
        stated = bundle.number(f"/summary/{name}")
        if stated is None or not math.isclose(stated, value, rel_tol=CLOSE, abs_tol=SLACK):
            found.append(f"/summary/{name} is {stated}; its records give {value:.12g}")
    return found
