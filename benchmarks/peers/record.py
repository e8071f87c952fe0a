"""What every peer notes about a measurement: one JSON object a case, one a line of the file (tools/mylos_report/peer_bundle.py
turns them into bundles).

Steps are timed without stopping the device after each: step s ends when its event has passed, which is waited for while
step s + 1 is already queued. So PyTorch's host code hides behind the device where it can, as that of mylos does.
"""
import datetime
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import time

import torch

from shape import ROOT, flops_per_token, parameter_counts


def _said(*command: str) -> str:
    """What a program prints, nothing when it is not there or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _commit() -> str:
    packed = ROOT / "commit"  # tools/device pack leaves it, where there is no git
    return packed.read_text().strip() if packed.is_file() else _said("git", "-C", str(ROOT), "rev-parse", "HEAD") or "unknown"


def uuid_of(device: str) -> str | None:
    return f"GPU-{torch.cuda.get_device_properties(0).uuid}" if device == "cuda" else None


def facts(system: str, device: str, shape: dict, sequence: int) -> dict:
    """Everything of a record that does not depend on the case."""
    versions = {"PyTorch": torch.__version__, "Python": platform.python_version()}
    hardware = {"device": _cpu_name(), "backend": "CPU", "is_gpu": False, "device_memory": 0,
                "driver": "", "threads": torch.get_num_threads(), "cpu_cores": len(os.sched_getaffinity(0))}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        versions |= {"CUDA": torch.version.cuda, "cuDNN": str(torch.backends.cudnn.version())}
        hardware |= {"device": properties.name, "backend": "Cuda", "is_gpu": True, "device_memory": properties.total_memory,
                     "driver": _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0]}
    hardware["cpu"] = _cpu_name()
    hardware["host_memory"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kept = ("OMP_", "MYLOS_", "PYTORCH_", "TORCH", "CUDA_", "NVIDIA_TF32")
    return {
        "format": "mylos-peer", "version": 1, "system": system, "call": os.environ.get("MYLOS_CALL", ""),
        "created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "versions": versions, "hardware": hardware, "command_line": [os.path.basename(sys.argv[0]), *sys.argv[1:]],
        "commit": _commit(), "host": socket.gethostname(), "operating_system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(kept)},
        "model": shape, "sequence": sequence, "parameters": parameter_counts(shape)[0],
        "flops_per_token": flops_per_token(shape, sequence), "devices": 1,
    }


def _cpu_name() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


class StepClock:
    """Ends of steps in seconds since `origin`. On a GPU they are events of the device, and lap(), called when a step has been queued,
    waits for the step before: the host runs one step ahead, and how late it hears of an end does not matter."""

    def __init__(self, device: str, origin: float):
        self.cuda, self.origin = device == "cuda", origin
        self._points = []
        if self.cuda:
            torch.cuda.synchronize()
            self._points.append(self._record())
        self.begin = time.perf_counter() - origin
        self._ends = []

    @property
    def laps(self) -> int:
        return len(self._points) - 1 if self.cuda else len(self._ends)

    def lap(self):
        if not self.cuda:
            self._ends.append(time.perf_counter() - self.origin)
            return
        self._points.append(self._record())
        self._points[-2].synchronize()

    @staticmethod
    def _record():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def finish(self) -> tuple[list, list]:
        """Durations and ends of all steps."""
        if self.cuda:
            torch.cuda.synchronize()
            self._ends = [self.begin + self._points[0].elapsed_time(point) * 1e-3 for point in self._points[1:]]
        return [end - begin for begin, end in zip([self.begin, *self._ends], self._ends)], self._ends


def steady(values: list) -> list:
    """The steps that count, by the rule of src/measure/mfu.cpp."""
    skip = 0 if len(values) <= 4 else max(3, min(100, len(values) // 5))
    return values[skip:]


def summarize(record: dict) -> str:
    """One line for people."""
    if record["status"] != "finished":
        return f"{record['label']}: {record['status']}"
    step = statistics.median(steady(record["steps"]["step_time"]))
    rate = record["tokens_per_step"] / step
    memory = record["peak_memory"] / 2**30
    gpu = record["telemetry"].get("gpu")
    power = f"  {statistics.median(gpu['power']):.0f} W  {statistics.median(gpu['sm_clock']):.0f} MHz" if gpu else ""
    return f"{record['label']}: {step * 1e3:.2f} ms a step, {rate:,.0f} tokens/s, {memory:.1f} GiB{power}"


def write(record: dict, path: str | None) -> None:
    """Prints the line for people and adds the record to the file; NaN becomes null."""
    print(summarize(record), flush=True)
    if not path:
        return
    text = json.dumps(_plain(record), allow_nan=False)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.write(text + "\n")


def _plain(value):
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value
