"""What a peer's record must be before a bundle is made of it; docs/bundle.md, kind `peer`.

Records come from other machines and programs: each value that becomes a path, a type or a divisor of the bundle is checked here, and
check() raises a BundleError that names the value and its bound.
"""

import datetime
import math
import re

from .bundle import BundleError

TEXTS = ("system", "created", "status", "commit", "host", "operating_system", "recompute", "mode")
COUNTS = ("devices", "tokens_per_step", "parameters", "sequence", "batch", "accumulation")
NEEDED = ("label", "call", "versions", "hardware", "command_line", "environment", "model", "flops_per_token", "state", "deterministic",
          *TEXTS, *COUNTS)  # fmt: skip
OF_FINISHED = ("compile", "steps", "telemetry", "peak_memory")  # a case that failed may have none
HARDWARE = {"device": str, "backend": str, "driver": str, "cpu": str, "is_gpu": bool, "threads": int, "cpu_cores": int,
            "device_memory": int, "host_memory": int}  # fmt: skip
STATE = ("weights", "gradients", "master", "moments")
LABEL_LENGTH = 120
WHOLE_BOUND = 1 << 63  # bundles keep whole numbers as i64
FLOPS_BOUND = 1e18  # a token of a model of 1e17 parameters


def shown(value):
    """A value in a message of one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_finite(value):
    return (is_whole(value) and abs(value) < WHOLE_BOUND) or (isinstance(value, float) and math.isfinite(value))


def _refuse(record, what):
    label = record.get("label")
    raise BundleError(f"peer record {shown(label)}: {what}")


def _is_time(text):
    try:
        return bool(re.fullmatch(r"[0-9TZ:-]{20}", text) and datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return False


def _check_names(record):
    """What becomes part of the bundle's file name."""
    label, call = record["label"], record["call"]
    if not isinstance(label, str) or not 1 <= len(label) <= LABEL_LENGTH or not label.isprintable():
        _refuse(record, f"its label must be a text of 1 to {LABEL_LENGTH} printable characters")
    if not isinstance(call, str) or not re.fullmatch(r"[A-Za-z0-9._-]{0,64}", call):
        _refuse(record, f"call is {shown(call)}; it must be at most 64 of letters, digits, '.', '_' and '-'")


def _check_tables(record):
    for name in ("versions", "environment"):
        table = record[name]
        if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
            _refuse(record, f"{name} is {shown(table)}; it must be an object of texts")
    line = record["command_line"]
    if not isinstance(line, list) or not all(isinstance(word, str) for word in line):
        _refuse(record, f"command_line is {shown(line)}; it must be a list of texts")
    model = record["model"]
    if not isinstance(model, dict) or not all(re.fullmatch(r"[A-Za-z0-9_-]+", key) for key in model):
        _refuse(record, f"model is {shown(model)}; it must be an object with keys of letters, digits, '_' and '-'")
    for key, value in model.items():
        if not isinstance(value, (str, bool)) and not is_finite(value):
            _refuse(record, f"model.{key} is {shown(value)}; it must be a finite number, a text or a truth value")
    state = record["state"]
    if not isinstance(state, dict) or not all(isinstance(state.get(key), str) for key in STATE):
        _refuse(record, f"state is {shown(state)}; it must hold the texts {', '.join(STATE)}")
    hardware = record["hardware"]
    for key, kind in HARDWARE.items():
        value = hardware.get(key) if isinstance(hardware, dict) else None
        whole = kind is int and is_whole(value) and 0 <= value < WHOLE_BOUND
        if not (whole if kind is int else isinstance(value, kind)):
            wanted = "a whole number, 0 or more" if kind is int else f"a {kind.__name__}"
            _refuse(record, f"hardware.{key} is {shown(value)}; it must be {wanted}")


def _check_numbers(record):
    for name in COUNTS:
        if not is_whole(record[name]) or not 1 <= record[name] < WHOLE_BOUND:
            _refuse(record, f"{name} is {shown(record[name])}; it must be a whole number from 1 to 2^63 - 1")
    flops = record["flops_per_token"]
    for name in ("causal", "palm", "total"):
        value = flops.get(name) if isinstance(flops, dict) else None
        if not is_finite(value) or not 0 < value < FLOPS_BOUND:
            _refuse(record, f"flops_per_token.{name} is {shown(value)}; it must be above 0 and below {FLOPS_BOUND:.0e}")


def _check_finished(record):
    missing = [name for name in OF_FINISHED if name not in record]
    if missing:
        _refuse(record, f"it has no '{missing[0]}'")
    if not isinstance(record["compile"], str):
        _refuse(record, f"compile is {shown(record['compile'])}; it must be a text")
    if not is_finite(record["peak_memory"]) or record["peak_memory"] < 0:
        _refuse(record, f"peak_memory is {shown(record['peak_memory'])}; it must be a number of bytes")
    for name, kind in (("steps", dict), ("telemetry", dict)):
        if not isinstance(record[name], kind):
            _refuse(record, f"{name} is {shown(record[name])}; it must be an object")
    times = record["steps"].get("step_time")
    if not isinstance(times, list):
        _refuse(record, f"steps.step_time is {shown(times)}; it must be a list of seconds")
    for row, value in enumerate(times):
        if not is_finite(value) or value <= 0:
            _refuse(record, f"step_time of row {row} is {shown(value)}; it must be finite and above 0")


def check(record):
    """BundleError unless a bundle can be made of the record; also for a case that the peer says has failed, with its words."""
    missing = [name for name in NEEDED if name not in record]
    if record.get("format") != "mylos-peer" or record.get("version") != 1 or missing:
        raise BundleError(f"this is no record of a peer: {f'it has no {missing[0]!r}' if missing else 'its format is not mylos-peer 1'}")
    _check_names(record)
    for name in TEXTS:
        if not isinstance(record[name], str):
            _refuse(record, f"{name} is {shown(record[name])}; it must be a text")
    if not _is_time(record["created"]):
        _refuse(record, f"created is {shown(record['created'])}; it must be like 2026-12-01T00:00:00Z")
    if not isinstance(record["deterministic"], bool):
        _refuse(record, f"deterministic is {shown(record['deterministic'])}; it must be true or false")
    if record["status"] != "finished":
        _refuse(record, " ".join(record["status"].split()))
    _check_tables(record)
    _check_numbers(record)
    _check_finished(record)
