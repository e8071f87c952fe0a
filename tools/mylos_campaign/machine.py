"""What this machine and this mylos can run, and why a row cannot: value, bound, remedy.

GPUs are those that nvidia-smi lists (within CUDA_VISIBLE_DEVICES); how mylos was built is what `mylos version` says; what a row needs of
memory is what `mylos plan` says.
"""

import functools
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
LIBRARIES = 2 * GIB  # of a GPU, beside what is planned


@dataclass
class Machine:
    gpus: int
    memory: int  # bytes of one GPU, or of the host for a CPU build; 0: not known
    is_gpu_build: bool
    has_mpi: bool
    ranks: int = 1


def _output(command, environment=None):
    try:
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", env=environment, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None


def _gpus():
    """Memory of each visible GPU, bytes."""
    done = _output(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"])
    sizes = [int(line) * 2**20 for line in done.stdout.split() if line.isdigit()] if done and done.returncode == 0 else []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return sizes if visible is None else sizes[: len([v for v in visible.split(",") if v.strip() and v.strip() != "-1"])]


def _host_memory():
    text = Path("/proc/meminfo").read_text()
    found = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return int(found.group(1)) * 1024 if found else 0


def look(mylos, environment, ranks=1):
    done = _output([mylos, "version"], environment)
    about = done.stdout if done else ""
    gpu_build = "device=cuda" in about
    gpus = _gpus() if gpu_build else []
    memory = (min(gpus) - LIBRARIES if gpus else 0) if gpu_build else _host_memory()
    return Machine(len(gpus), memory, gpu_build, bool(re.search(r"mpi: (?!no)", about)), ranks)


def _gib(size):
    return f"{size / GIB:.1f} GiB"


def _too_few(row, machine):
    if row.gpus == 0:
        return ""
    if not machine.is_gpu_build:
        return (f"needs {row.gpus} GPU{'s' * (row.gpus > 1)}, and this mylos is built for the CPU; build it with `--native-file meson/cuda.ini` "
                "on a machine with one, or choose rows of a CPU with --scale")  # fmt: skip
    if row.gpus > 1 and not machine.has_mpi:
        return f"needs {row.gpus} GPUs on {row.nodes} node{'s' * (row.nodes > 1)}, and this mylos runs on 1 (`mylos version`: it has no MPI); its rows of 1 GPU run"
    have = machine.gpus * (machine.ranks if machine.ranks > 1 else 1)
    if row.gpus > have:
        return f"needs {row.gpus} GPUs, and {have} are here; print a job for them with --sbatch"
    return ""


def _too_large(row, machine, mylos, config, environment):
    """By the row's plan; a configuration without one is the row's own error, with its own words."""
    if row.gpus > 1 or not row.config or not machine.memory:
        return ""
    overrides = ["--" + text for text in row.overrides if "{" not in text]
    done = _output([mylos, "plan", config, "--json", *overrides], environment)
    if not done or done.returncode != 0:
        return ""
    needed = json.loads(done.stdout)["memory_bytes"]["total"]
    if needed <= machine.memory:
        return ""
    where = "one GPU has" if machine.is_gpu_build else "are free on this machine"
    has = f"{where} {_gib(machine.memory)}" if machine.is_gpu_build else f"{_gib(machine.memory)} {where}"
    return f"needs {_gib(needed)} by its plan, and {has}; recompute more, or take a smaller micro-batch, fewer layers or smaller state"


@functools.cache
def has_torch(python):
    looks = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    done = _output([python, "-c", looks])
    return bool(done and done.returncode == 0)


def refusal(row, machine, place, python, config, environment):
    """Why the row cannot run here; empty when it can."""
    if row.bench and not place.bench.is_file():
        return f"needs mylos-bench, and there is no {place.bench.name} beside this mylos; build the target mylos-bench"
    few = _too_few(row, machine)
    if not few and row.peer and not has_torch(python):
        return f"needs a Python with torch, and '{python}' has none; name one with --python"
    return few or _too_large(row, machine, place.mylos, config, environment)
