"""What a run of the peers' components leaves: one JSON object, format mylos-peer-bench 1. No torch is needed to read or check it.

  {"format": "mylos-peer-bench", "version": 1, system, call, created, versions, hardware, command_line, commit, host, operating_system,
   environment, telemetry, power_limit, rules: {warm_up, stop}, cases: [...]}
A case: name (of the case of mylos that it stands beside), mode (how PyTorch ran it: eager, compiled, graph, ...), component, dtype, flops, bytes,
items, item_units (of one call; 0: not counted), work_source, samples_s (seconds a call, in the order measured), calls_per_sample,
warm_up_calls, warm_up_s, stop, clock, captured, threads, warm, peak_memory; or `skipped`, why there are no samples. tools/mylos_report/peer_bench.py makes bundles of it.
"""
import json
import os
import pathlib
import statistics

FORMAT, VERSION = "mylos-peer-bench", 1
OF_RUN = ("system", "call", "created", "versions", "hardware", "command_line", "commit", "host", "operating_system", "environment")
UNCOUNTED = {"flops": 0.0, "bytes": 0.0, "items": 0.0, "item_units": "", "threads": 1, "warm": False, "peak_memory": 0}


def begin(facts: dict, rules: dict) -> dict:
    """A run without cases, of the facts of record.facts()."""
    return {"format": FORMAT, "version": VERSION, **{key: facts[key] for key in OF_RUN}, "rules": rules, "telemetry": {"reason": "not stopped"}, "cases": []}


def full_name(case: dict) -> str:
    return f"{case['name']} [{case['mode']}]"


def write(run: dict, path: str) -> None:
    """Replaces the file: a run that is killed leaves the cases that were done."""
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.tmp-{os.getpid()}")
    temporary.write_text(json.dumps(run, allow_nan=False) + "\n")
    os.replace(temporary, target)


def _rate(amount: float, units: str, seconds: float) -> str:
    return f"{amount / seconds:.3f} {units}" if amount else ""


def line(case: dict) -> str:
    """One row of the table."""
    name = f"{full_name(case):62}"
    if case.get("skipped"):
        return f"{name} skipped: {case['skipped']}"
    t = statistics.median(case["samples_s"])
    spread = statistics.median(abs(x - t) for x in case["samples_s"]) / t
    rates = (_rate(case["flops"] / 1e12, "TFLOP/s", t), _rate(case["bytes"] / 1e9, "GB/s", t),
             _rate(case["items"] / 1e6, f"M {case['item_units']}/s", t))
    return f"{name} {t * 1e6:12.1f} us  +-{100 * spread:4.1f} %  {len(case['samples_s']):4d} {case['stop']:7}  {'  '.join(r for r in rates if r)}"
