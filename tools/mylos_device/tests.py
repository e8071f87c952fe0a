"""Runs a pack's test programs, plain and under compute-sanitizer, one log each."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path


# racecheck follows each access of shared memory: in our own kernels, not in the libraries' (it reports hazards in cuDNN's backward attention,
# whose results are right and the same in every run), and in cases that it is done with in seconds.
OF_TOOL = {"racecheck": ["--kernel-name", "kns=mylos"]}
MOST_ELEMENTS = "400000"


def run(command, log: Path, env, timeout):
    start = time.monotonic()
    with log.open("w") as f:
        try:
            code = subprocess.run(command, stdout=f, stderr=subprocess.STDOUT, env=env, timeout=timeout).returncode
        except subprocess.TimeoutExpired:
            code = "timed out"
    return code, time.monotonic() - start


def summary_of(log: Path) -> str:
    text = log.read_text(errors="replace")
    passed = re.findall(r"\[  PASSED  \] (\d+) tests?", text)
    failed = re.findall(r"^\[  FAILED  \] ([\w./]+)(?:,| \()", text, re.M)
    errors = re.findall(r"ERROR SUMMARY: (\d+) errors?", text)
    parts = [f"{passed[-1]} passed"] if passed else []
    if failed:
        parts.append("failed: " + " ".join(sorted(set(failed))[:6]))
    if errors:
        parts.append(f"{errors[-1]} sanitizer errors")
    return ", ".join(parts) or text.strip().splitlines()[-1][:100] if text.strip() else "no output"


def test(dest: Path, out: Path, only: str, sanitize: str, timeout: float) -> int:
    if not shutil.which("nvidia-smi"):
        print("device: there is no nvidia-smi here; `test` runs a pack on the machine with the GPU", file=sys.stderr)
        return 1
    out.mkdir(parents=True, exist_ok=True)
    env = dict(os.environ, LD_LIBRARY_PATH=f"{dest / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}", OMP_PROC_BIND="false",
               MYLOS_SOURCE_ROOT=str(dest / "source"))
    subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,power.limit,clocks.sm", "--format=csv,noheader"], check=False)
    rows, bad = [], 0
    tools = [""] + [t for t in sanitize.split(",") if t]
    for tool in tools:
        for program in sorted((dest / "bin").glob("test_*")):
            if only and not re.search(only, program.name):
                continue
            if tool and "kernels" not in program.name:
                continue  # the sanitizers are for the kernels; whole-model tests under them take minutes
            command = [str(program)]
            if tool:
                command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "99", *OF_TOOL.get(tool, [])] + command
            log = out / f"{program.name}{'.' + tool if tool else ''}.log"
            code, seconds = run(command, log, env | ({"MYLOS_TEST_MOST": MOST_ELEMENTS} if tool == "racecheck" else {}), timeout)
            bad += code != 0
            rows.append((program.name, tool or "plain", "ok" if code == 0 else f"FAILED ({code})", f"{seconds:.1f}", summary_of(log)))
            print(*rows[-1], flush=True)
    width = max((len(r[0]) for r in rows), default=10)
    print(f"\n{'program':{width}}  {'tool':9}  {'result':14}  {'s':>6}  tests")
    for r in rows:
        print(f"{r[0]:{width}}  {r[1]:9}  {r[2]:14}  {r[3]:>6}  {r[4]}")
    print(f"{len(rows) - bad} passed, {bad} failed")
    return 1 if bad or not rows else 0
