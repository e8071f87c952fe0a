"""Component benchmarks of peers (benchmarks/peers/components.py, format mylos-peer-bench) as bundles of kind `bench`, one a mode.

Cases have mylos' names, so that `mylos diff OURS.h5 PEER.h5` pairs them; the root attributes `system` and `mode` say whose they are. All raw samples are
kept, and derived figures are those of src/measure/bench_record.hpp, which `mylos validate` computes anew. `best` is one more bundle: of
each name the mode with the shortest median.
"""

import json
import math
import pathlib
import re

import numpy as np

from . import peer_bundle, peer_record, sample_interval
from .bundle import BundleError
from .writer import Writer

FORMAT = "mylos-peer-bench"
NO_CHECK = "the operators are the peer's own; its update rules are held against each other"
CASE_TEXTS = {
    "name": "what is timed; unique",
    "component": "forward, optimizer, data, checkpoint or harness",
    "dtype": "of the operands; empty where that says nothing",
    "item_units": "what items are; empty without",
    "work_source": "where flops, bytes and items come from",
    "check": "what the results were held against before timing",
    "no_check": "why they were not; empty when they were",
    "stop": "why sampling ended",
    "skipped": "why there are no samples; empty when there are",
    "mode": "how the peer ran it",
}
CASE_NUMBERS = {
    "on_device": ("1", "1: work of the device that kernels run on, 0: of the host"),
    "warm": ("1", "1: operands may stay in caches, 0: they come from memory"),
    "threads": ("1", "CPU threads that take part"),
    "flops": ("FLOP", "of one call, a multiply-add as two; 0: not counted"),
    "bytes": ("byte", "of one call when each operand moves once; 0: not counted"),
    "items": ("1", "of one call, in item_units; 0: not counted"),
    "error": ("1", "largest error of the check; NaN without one"),
    "bound": ("1", "what the error may be; NaN without a check"),
    "calls_per_sample": ("1", "calls that one sample is the mean of"),
    "warm_up_calls": ("1", "calls before the first sample"),
    "warm_up": ("s", "time of the calls before the first sample"),
    "memory": ("byte", "most device memory held at once; 0: not counted"),
}
SAMPLES = {"case": ("1", "row of /cases"), "time": ("s", "of one call: the mean of calls_per_sample calls that were timed together"),
           "sm_clock": ("MHz", "not known: NaN"), "power": ("W", "not known: NaN; see /telemetry"), "temperature": ("degC", "not known: NaN"),
           "throttle_reasons": ("1", "not known: NaN"), "rejected": ("1", "0: none is")}  # fmt: skip
FIGURES = {"median": "s", "mad": "s", "median_low": "s", "median_high": "s", "flop_rate": "FLOP/s", "byte_rate": "byte/s", "item_rate": "1/s",
           "sm_clock": "MHz", "roofline": "s", "share": "1"}  # fmt: skip
RUN = ("system", "call", "created", "versions", "hardware", "command_line", "commit", "host", "operating_system", "environment", "telemetry",
       "rules", "cases")  # fmt: skip


def _refuse(what):
    raise BundleError(f"peer benchmarks: {what}")


def _check_case(case, row):
    if not isinstance(case, dict) or not isinstance(case.get("name"), str) or not 1 <= len(case["name"]) <= 200:
        _refuse(f"case {row} has no name of 1 to 200 characters")
    where = f"case {row}, '{case['name']}'"
    for key in ("mode", "component", "dtype", "item_units", "work_source"):
        if not isinstance(case.get(key), str) or not case[key].isprintable():
            _refuse(f"{where}: {key} is {peer_record.shown(case.get(key))}; it must be a text")
    if not re.fullmatch(r"[a-z0-9_-]{1,32}", case["mode"]) or case["mode"] == "best":
        _refuse(f"{where}: mode is {peer_record.shown(case['mode'])}; it must be 1 to 32 of small letters, digits, '_' and '-', and not best")
    for key in ("flops", "bytes", "items"):
        if not peer_record.is_finite(case.get(key)) or case[key] < 0:
            _refuse(f"{where}: {key} is {peer_record.shown(case.get(key))}; it must be finite and not negative")
    if (case["items"] > 0) != bool(case["item_units"]):
        _refuse(f"{where}: {case['items']} items of '{case['item_units']}'; give both or none")
    if case.get("skipped"):
        if not isinstance(case["skipped"], str) or case.get("samples_s"):
            _refuse(f"{where}: skipped must be a text, of a case without samples")
        return
    samples = case.get("samples_s")
    if not isinstance(samples, list) or not samples:
        _refuse(f"{where}: samples_s is {peer_record.shown(samples)}; it must be a list of seconds, or skipped must say why not")
    for i, value in enumerate(samples):
        if not peer_record.is_finite(value) or value <= 0:
            _refuse(f"{where}: sample {i} is {peer_record.shown(value)}; it must be finite and above 0")
    if not peer_record.is_whole(case.get("calls_per_sample")) or case["calls_per_sample"] < 1 or not isinstance(case.get("stop"), str) or not case["stop"]:
        _refuse(f"{where}: it needs calls_per_sample of at least 1 and the reason why it stopped")


def check(record):
    """BundleError unless bundles can be made of the record."""
    if record.get("format") != FORMAT or record.get("version") != 1:
        _refuse(f"format and version are {peer_record.shown((record.get('format'), record.get('version')))}; known is {FORMAT} 1")
    missing = [name for name in RUN if name not in record]
    if missing:
        _refuse(f"the record has no '{missing[0]}'")
    for key in ("system", "created", "commit", "host", "operating_system"):
        if not isinstance(record[key], str):
            _refuse(f"{key} is {peer_record.shown(record[key])}; it must be a text")
    if not re.fullmatch(r"[a-z0-9_-]{1,32}", record["system"]):
        _refuse(f"system is {peer_record.shown(record['system'])}; it must be 1 to 32 of small letters, digits, '_' and '-'")
    if not peer_record._is_time(record["created"]):
        _refuse(f"created is {peer_record.shown(record['created'])}; it must be like 2026-12-01T00:00:00Z")
    if not isinstance(record["telemetry"], dict):
        _refuse(f"telemetry is {peer_record.shown(record['telemetry'])}; it must be an object")
    if not isinstance(record["call"], str) or not re.fullmatch(r"[A-Za-z0-9._-]{0,64}", record["call"]):
        _refuse(f"call is {peer_record.shown(record['call'])}; it must be at most 64 of letters, digits, '.', '_' and '-'")
    peer_record._check_tables(record | {"label": "components", "state": dict.fromkeys(peer_record.STATE, ""), "model": {}})
    rules = record["rules"]
    if not isinstance(rules, dict) or not all(isinstance(rules.get(k), str) and rules[k] for k in ("warm_up", "stop")):
        _refuse("rules must say warm_up and stop in words")
    if not isinstance(record["cases"], list) or not record["cases"]:
        _refuse("it has no cases")
    seen = set()
    for row, case in enumerate(record["cases"]):
        _check_case(case, row)
        if (case["name"], case["mode"]) in seen:
            _refuse(f"'{case['name']}' is there twice in mode {case['mode']}")
        seen.add((case["name"], case["mode"]))


def _median(case):
    return float(np.median(case["samples_s"])) if case.get("samples_s") else math.inf


def by_mode(record):
    """mode -> its cases; `best` has one of each name."""
    modes, best = {}, {}
    for case in record["cases"]:
        modes.setdefault(case["mode"], []).append(case)
        best.setdefault(case["name"], case)
        best[case["name"]] = min(best[case["name"]], case, key=_median)
    return modes | {"best": list(best.values())}


def _row(case):
    """The case with every column, and its figures."""
    row = {"check": "", "no_check": NO_CHECK, "skipped": "", "stop": "", "warm": False, "threads": 1, "calls_per_sample": 0, "warm_up_calls": 0} | case
    row |= {"on_device": case.get("clock") == "device" or case["component"] != "data", "error": math.nan, "bound": math.nan,
            "warm_up": float(case.get("warm_up_s", 0)), "memory": float(case.get("peak_memory", 0))}  # fmt: skip
    figures = dict.fromkeys(FIGURES, math.nan)
    if not row["skipped"]:
        figures |= sample_interval.figures(case["samples_s"])
        for rate, amount in (("flop_rate", "flops"), ("byte_rate", "bytes"), ("item_rate", "items")):
            figures[rate] = case[amount] / figures["median"] if case[amount] > 0 else math.nan
    return row, figures


def write(record, cases, mode, path):
    """The cases, one of each name, as a bundle at `path`."""
    rows = [_row(case) for case in cases]
    counts = [len(case.get("samples_s", [])) for case in cases]
    gpu = record["telemetry"].get("gpu")
    with Writer(path) as w:
        w.group("/", schema="mylos-bundle", schema_version="1.0.0", kind="bench", created=record["created"], published=record["created"],
                complete=True, system=record["system"], mode=mode)  # fmt: skip
        peer_bundle._write_provenance(w, record)
        peer_bundle._write_hardware(w, record | {"devices": 1})
        w.text("/config/toml", f'[peer]\nsystem = {json.dumps(record["system"])}\nmode = "{mode}"\n', "what was run")
        w.group("/plan")
        for name, description in CASE_TEXTS.items():
            w.texts(f"/cases/{name}", [row[name] for row, _ in rows], description)
        for name, (units, description) in CASE_NUMBERS.items():
            w.number(f"/cases/{name}", [float(row[name]) for row, _ in rows], units, description)
        w.group("/samples", warm_up_rule=record["rules"]["warm_up"], stop_rule=record["rules"]["stop"], reject_rule="none is rejected")
        unknown = np.full(sum(counts), math.nan)
        columns = dict.fromkeys(SAMPLES, unknown) | {"case": np.repeat(np.arange(len(cases), dtype=np.float64), counts),
                   "time": np.array([t for case in cases for t in case.get("samples_s", [])], np.float64), "rejected": np.zeros(sum(counts))}  # fmt: skip
        for name, (units, description) in SAMPLES.items():
            w.number(f"/samples/calls/{name}", columns[name], units, description)
        w.group("/telemetry", **({} if gpu else {"gpu": "not available: " + str(record["telemetry"].get("reason", "not said"))}))
        for name, values in (peer_bundle._series({"label": "components"}, "telemetry.gpu", gpu, list(peer_bundle.TELEMETRY_COLUMNS)) if gpu else {}).items():
            w.number(f"/telemetry/gpu/{name}", values, *peer_bundle.TELEMETRY_COLUMNS[name])
        w.number("/derived/cases/samples", [float(n) for n in counts], "1", "samples that were not rejected")
        for name, units in FIGURES.items():
            w.number(f"/derived/cases/{name}", [figures[name] for _, figures in rows], units, "as src/measure/bench_record.hpp says")
        w.texts("/derived/rooflines/limit", [], "none: a peer measures no rooflines")
        for name in ("case", "rate"):
            w.number(f"/derived/rooflines/{name}", np.zeros(0), "1", "none")
        w.group("/derived", interval="of the median: bootstrap, its distances from the median times the root of the autocorrelation time")
        w.group("/summary")


def convert(record, folder, row):
    """A bundle a mode of one record; returns their paths."""
    check(record)
    call, written = f".{record['call']}" if record["call"] else "", []
    for mode, cases in by_mode(record).items():
        path = pathlib.Path(folder) / f"{row}.{record['system']}-{mode}{call}.h5"
        write(record, cases, mode, path)
        written.append(path)
    return written
