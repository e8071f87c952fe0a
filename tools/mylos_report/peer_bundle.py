"""Peers' measurements (benchmarks/peers, one JSON object a line) as bundles of kind `peer` (docs/bundle.md).

Samples, steady window, MFU definitions and peaks are those of a train bundle, so that the same code compares both.
"""

import json
import math
import pathlib
import re
import tomllib

import numpy as np

from . import peer_record, sample_interval, steady
from .bundle import BundleError
from .writer import Writer

STEP_COLUMNS = {
    "step": ("1", "optimizer step, or micro-batch of a limit; the first recorded one may not be 1"),
    "loss": ("nat/token", "mean cross entropy of the step, before the update; NaN when none is computed"),
    "grad_norm": ("1", "global L2 norm of the gradient before clipping; NaN when none is computed"),
    "learning_rate": ("1", "learning rate of the step; NaN when nothing is learnt"),
    "step_time": ("s", "wall time of the step"),
    "time": ("s", "end of the step since the begin of the telemetry"),
}
TELEMETRY_COLUMNS = {
    "time": ("s", "time since the begin"),
    "power": ("W", "power of the device"),
    "sm_clock": ("MHz", "clock of the multiprocessors"),
    "memory_clock": ("MHz", "clock of the memory"),
    "temperature": ("degC", "temperature of the device"),
    "throttle_reasons": ("1", "bit mask of why clocks are lowered (nvmlClocksEventReason...)"),
    "energy": ("J", "energy used since the driver was loaded"),
}


def _toml_value(value):
    return json.dumps(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)


def _config(record):
    """As a mylos configuration, as far as its keys say what the peer did; [peer] holds the rest."""
    state = record["state"]
    master = "exact" if state["master"] not in ("none", "") else "none"
    sections = {
        "model": record["model"],
        "train": {"steps": len(record["steps"]["step"]), "batch": record["batch"], "accumulation": record["accumulation"],
                  "sequence": record["sequence"], "recompute": record["recompute"], "storage": state["weights"],
                  "gradients": state["gradients"], "deterministic": record["deterministic"]},
        "optimizer": {"master": master, "moments": state["moments"]},
        "peer": {"system": record["system"], "mode": record["mode"], "compile": record["compile"], "master": state["master"]},
    }  # fmt: skip
    text = "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {_toml_value(value)}\n" for key, value in keys.items())
        for name, keys in sections.items()
    )
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BundleError(f"peer record '{record['label']}' has a text that TOML cannot hold: {error}") from error
    return text


def _is_entry(value):
    return value is None or isinstance(value, float) or peer_record.is_whole(value)


def _series(record, where, table, names):
    """Columns of one length as numbers; null is NaN."""
    for name in names:
        values = table.get(name) if isinstance(table, dict) else None
        odd = [v for v in values if not _is_entry(v)] if isinstance(values, list) else [values]
        if odd:
            what = f"{where}.{name} is or holds {peer_record.shown(odd[0])}; it must be a list of numbers"
            raise BundleError(f"peer record '{record['label']}': {what}")
    columns = {name: [math.nan if v is None else float(v) for v in table[name]] for name in names}
    if len({len(v) for v in columns.values()}) != 1 or not columns[names[0]]:
        raise BundleError(f"peer record '{record['label']}': its columns {', '.join(names)} are empty or differ in length")
    return {name: np.array(v) for name, v in columns.items()}


def _write_provenance(w, record):
    versions, environment = record["versions"], record["environment"]
    w.group("/provenance", commit=record["commit"], dirty=False, program=f"{record['system']} peer of mylos", compiler="none: Python",
            host=record["host"], operating_system=record["operating_system"], working_directory="", call=record["call"])  # fmt: skip
    w.text("/provenance/diff", "", "difference of the sources from the commit; not recorded for peers")
    w.text("/provenance/build_options", "", "how the program was compiled; nothing for peers")
    w.texts("/provenance/command_line", record["command_line"], "program and arguments")
    w.texts("/provenance/libraries/name", list(versions), "libraries of the program")
    w.texts("/provenance/libraries/version", list(versions.values()), "their versions, in the order of name")
    w.texts("/provenance/environment/name", list(environment), "environment variables that change results or speed")
    w.texts("/provenance/environment/value", list(environment.values()), "their values, in the order of name")


def _write_hardware(w, record):
    h = record["hardware"]
    more = {"power_limit": float(record["power_limit"])} if record.get("power_limit") else {}
    if h["driver"]:
        more["driver"] = h["driver"]
    w.group("/hardware", device=h["device"], backend=h["backend"], is_gpu=h["is_gpu"], devices=record["devices"], threads=h["threads"],
            cpu=h["cpu"], cpu_cores=h["cpu_cores"], **more)  # fmt: skip
    w.number("/hardware/device_memory", int(h["device_memory"]), "byte", "memory of one device")
    w.number("/hardware/host_memory", int(h["host_memory"]), "byte", "memory of the host")


def _write_derived(w, record, rate, energy_per_token):
    device, devices = record["hardware"]["device"], record["devices"]
    # With autocast, products of fp32 weights run in bf16.
    peak, source = steady.peak(device, record.get("products", record["state"]["weights"]))
    reason = {} if peak else {"no_mfu": f"no peak is known for the device '{device}'"}
    w.group("/derived", device=device, devices=devices, **reason)
    for name, formula in steady.MFU.items():
        flops = float(record["flops_per_token"][name])
        w.number(f"/derived/model_flops_per_token_{name}", flops, "FLOP/token", formula)
        w.number(f"/derived/model_flop_rate_{name}", flops * rate / devices, "FLOP/s", f"model FLOPs per second and device: {formula}")
        if peak:
            w.number(f"/derived/mfu_{name}", flops * rate / (devices * peak), "1", f"model FLOPs utilisation: {formula}",
                     peak_flops=peak, peak_source=source)  # fmt: skip
    if energy_per_token is not None:
        w.number("/derived/energy_per_token", energy_per_token, "J/token", "energy of the device over the steady window, by token")


def write(record, path):
    """One record as a bundle at `path`; a record of a failed case has nothing to keep and is an error."""
    peer_record.check(record)
    steps = _series(record, "steps", record["steps"], list(STEP_COLUMNS))
    config, count = _config(record), len(steps["step"])
    tokens = np.full(count, float(record["tokens_per_step"]))
    rates = tokens / steps["step_time"]
    # Records without a device's clock: the host took the times when it heard of an end, which was up to a step late but for the
    # last one, whose time is cut short.
    late = record.get("clock") != "device" and record["hardware"]["is_gpu"] and count > 4
    first, end, is_short = steady.window(count - late)
    rate = tokens[first:end].sum() / steps["step_time"][first:end].sum()
    median, low, high = sample_interval.bootstrap(rates[first:end])
    gpu = record["telemetry"].get("gpu")
    samples = _series(record, "telemetry.gpu", gpu, list(TELEMETRY_COLUMNS)) if gpu else None
    used = steady.energy(samples, steps["time"], steps["step_time"], tokens, first, end) if gpu else None
    with Writer(path) as w:
        w.group("/", schema="mylos-bundle", schema_version="1.0.0", kind="peer", created=record["created"], published=record["created"],
                complete=True, status=record["status"], system=record["system"], label=record["label"], mode=record["mode"])  # fmt: skip
        _write_provenance(w, record)
        _write_hardware(w, record)
        w.text("/config/toml", config, "what was run, in the keys of a mylos configuration")
        w.group("/plan", parameters=int(record["parameters"]))
        for name, (units, description) in STEP_COLUMNS.items():
            w.number(f"/samples/steps/{name}", steps[name], units, description)
        for name, values, description in (("tokens", tokens, "tokens processed in the step"),
                                          ("valid_tokens", tokens, "tokens that counted in the loss")):  # fmt: skip
            w.number(f"/samples/steps/{name}", values, "tokens", description)
        w.number("/samples/steps/data_wait", np.zeros(count), "s", "time of the step spent waiting for data: tokens are on the device")
        w.number("/samples/steps/tokens_per_s", rates, "tokens/s", "tokens over step_time")
        w.group("/telemetry", **({} if gpu else {"gpu": "not available: " + record["telemetry"].get("reason", "not said")}))
        for name, values in (samples or {}).items():
            w.number(f"/telemetry/gpu/{name}", values, *TELEMETRY_COLUMNS[name])
        w.group("/summary", steady_window_rule=steady.RULE, steady_window_is_short=is_short)
        for name, value, units, description, more in (
            ("steps", float(count), "1", "steps recorded", {}),
            ("tokens", tokens.sum(), "tokens", "tokens processed in all recorded steps", {}),
            ("train_loss_last", steps["loss"][-1], "nat/token", "loss of the last step", {}),
            ("steady_window_first", float(first), "1", "first row of /samples/steps in the steady window", {}),
            ("steady_window_end", float(end), "1", "row after the last one of the steady window", {}),
            ("tokens_per_s", rate, "tokens/s", "tokens over wall time of the steady window", {}),
            ("tokens_per_s_median", median, "tokens/s", "median over the steps of the steady window", {"interval": steady.INTERVAL}),
            ("tokens_per_s_median_low", low, "tokens/s", "lower end of the median's 95 % interval", {}),
            ("tokens_per_s_median_high", high, "tokens/s", "upper end of the median's 95 % interval", {}),
            ("device_memory_peak", float(record["peak_memory"]), "byte", "most device memory held at once", {}),
        ):
            w.number(f"/summary/{name}", float(value), units, description, **more)
        _write_derived(w, record, rate, used and used[0] / used[2])


def read_records(path):
    """The objects of a file, with an error that names the line."""
    if not pathlib.Path(path).is_file():  # a pipe would never open
        raise BundleError(f"'{path}' is not a regular file")
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"'{path}' cannot be read: {error}") from error
    records = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("it is no object")
            records.append(record)
        except (ValueError, RecursionError) as error:
            raise BundleError(f"'{path}', line {number}: not JSON of a peer: {error}") from error
    return records


def bundle_name(row, record):
    return f"{row}.{re.sub('[^A-Za-z0-9.-]+', '-', record['label'])}"


def convert(json_path, folder, row):
    """Bundles of all records of a file; returns their paths and what could not be converted, a line each."""
    from . import peer_bench  # which imports this module

    written, failures = [], []
    for record in read_records(json_path):
        try:
            if record.get("format") == peer_bench.FORMAT:
                written += peer_bench.convert(record, folder, row)
                continue
            peer_record.check(record)
            call = f".{record['call']}" if record["call"] else ""
            path = pathlib.Path(folder) / f"{bundle_name(row, record)}{call}.h5"
            write(record, path)
            written.append(path)
        except BundleError as error:
            failures.append(str(error))
        except Exception as error:  # whatever another program has put into a record, the other records count
            failures.append(f"peer record '{record.get('label', row)}': {type(error).__name__}: {' '.join(str(error).split())}")
    return written, failures
