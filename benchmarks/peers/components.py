#!/usr/bin/env python3
"""The components of the reference system in PyTorch, beside which `mylos bench` runs its own: forward, attention, optimizers, data.

  benchmarks/peers/components.py --out results/components.json                       # everything, for an H200
  benchmarks/peers/components.py --only '^optimizer/.*graph' --budget 60 --out o.json  # cases by name and mode
  benchmarks/peers/components.py --scale cpu --list

Every case has the name of the case of mylos that it stands beside, and a mode: how PyTorch ran it. --only is searched for in "NAME [MODE]".
Cases that fail, or for which no time is left, are listed with the reason. Progress goes to stderr,
the table to stdout, last. One JSON object (components_record.py) replaces FILE after each case.
"""
import argparse
import gc
import re
import sys
import time

import torch

import components_data
import components_forward
import components_optimizer
import components_record
import record
import timing
from component_case import Sizes
from shape import preset
from telemetry import Telemetry


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose \"NAME [MODE]\" it is found in; default: all")
    parser.add_argument("--budget", type=float, default=110.0, metavar="S", help="seconds for everything, compilation included (default 110)")
    parser.add_argument("--case-budget", type=float, default=0.6, metavar="S", help="seconds of warm-up and samples a case (default 0.6)")
    parser.add_argument("--scale", choices=("gpu", "cpu"), help="sizes of the cases; default: what the machine has")
    parser.add_argument("--out", metavar="FILE", help="the record as JSON")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    a = parser.parse_args()
    for name in ("budget", "case_budget"):
        if not 0 < getattr(a, name) < float("inf"):
            parser.error(f"--{name.replace('_', '-')} is {getattr(a, name)}; it must be above 0")
    try:
        a.pattern = re.compile(a.only)
    except re.error as error:
        parser.error(f"--only '{a.only}' is no regular expression: {error}")
    a.scale = a.scale or ("gpu" if torch.cuda.is_available() else "cpu")
    if a.scale == "gpu" and not torch.cuda.is_available():
        parser.error("--scale gpu needs a CUDA device, and PyTorch sees none; use --scale cpu")
    if not a.out and not a.list:
        parser.error("--out is missing: the file that keeps the samples")
    return parser, a


def run(case, device, budget_s):
    """The case's part of the record."""
    cuda = device == "cuda" and not case.host
    if cuda:
        gc.collect()  # compiled code and what it ran on refer to each other
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with timing.attention_by(case.attention, device):
        begin = time.perf_counter()
        calls = case.make()
        calls[0]()  # compiles
        if cuda:
            torch.cuda.synchronize()
        prepared = time.perf_counter() - begin
        result = timing.measure(calls, device, budget_s, case.captured, case.least, case.host)
    memory = torch.cuda.max_memory_allocated() if cuda else 0
    return case.facts() | result | {"prepare_s": prepared, "peak_memory": memory}


def measure_all(cases, a, device, out):
    origin = time.perf_counter()
    telemetry = Telemetry(record.uuid_of(device))
    for case in cases:
        left = a.budget - (time.perf_counter() - origin)
        begin = time.perf_counter() - telemetry.origin
        if left < a.case_budget:
            entry = case.facts() | {"skipped": f"no time left of {a.budget:g} s; name it with --only or raise --budget"}
        else:
            try:
                entry = run(case, device, a.case_budget * case.patience)
            except Exception as error:  # one case must not take the others with it
                entry = case.facts() | {"skipped": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        entry |= {"begin": begin, "end": time.perf_counter() - telemetry.origin}
        out["cases"].append(entry)
        print(components_record.line(entry), file=sys.stderr, flush=True)
        components_record.write(out, a.out)
    out["power_limit"] = telemetry.power_limit_w()
    out["telemetry"] = telemetry.stop()
    components_record.write(out, a.out)


def main() -> int:
    parser, a = arguments()
    device = "cuda" if a.scale == "gpu" else "cpu"
    sizes = Sizes(a.scale, device)
    every = [c for module in (components_forward, components_optimizer, components_data) for c in module.cases(sizes)]
    chosen = [c for c in every if a.pattern.search(f"{c.name} [{c.mode}]")]
    if not chosen:
        parser.error(f"--only '{a.only}' fits none of {len(every)} cases; --list shows them")
    if a.list:
        print("\n".join(f"{c.name} [{c.mode}]" for c in chosen))
        return 0
    torch._dynamo.config.recompile_limit = 64  # one function serves many shapes; falling back to eager code would go unnoticed
    facts = record.facts("pytorch", device, preset("125m"), 512)
    out = components_record.begin(facts, {"warm_up": timing.WARM_UP_RULE, "stop": timing.STOP_RULE})
    measure_all(chosen, a, device, out)
    skipped = [c for c in out["cases"] if c.get("skipped")]
    print(f"\n{len(chosen) - len(skipped)} of {len(chosen)} cases measured, {a.out}\n" + "\n".join(components_record.line(c) for c in out["cases"]))
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
