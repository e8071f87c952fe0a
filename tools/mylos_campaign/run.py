"""`campaign run`: the rows that are not done yet, in one call; then their report.

Finished rows are left as they are and failed ones keep their reason (history.py); what this machine cannot do is refused (machine.py).
Exit status: 0 when no row failed and one was or had been measured, 1 otherwise, 130 after an interrupt.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from mylos_device import bench
from mylos_device.errors import PlanError
from mylos_device.lock import Lock
from mylos_device.plan import config_path, with_needed
from mylos_device.progress import say

from . import history, keep, machine, slurm
from .folder import ROOT, environment

RAISED = r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b"  # the last line of what Python says of an exception


def place_of(build):
    """Where mylos is: --build, the one that $MYLOS names (`mylos campaign` does), a pack around this tree, or a build folder in it."""
    if build:
        return bench.Place.of(None, Path(build).resolve(), ROOT)
    started = os.environ.get("MYLOS")
    if started:
        program = Path(started).resolve()
        if (program.parent.parent / "source/tools/campaign").is_file():
            return bench.Place.of(program.parent.parent, None, ROOT)
        if len(program.parents) > 2 and program == program.parents[2] / "src/cli/mylos":
            return bench.Place.of(None, program.parents[2], ROOT)
        raise PlanError(f"MYLOS is '{started}', which lies in no build folder and no pack; name a build folder with --build")
    if (ROOT.parent / "bin/mylos").is_file() and ROOT.name == "source":
        return bench.Place.of(ROOT.parent, None, ROOT)
    order = ("build-cuda", "build") if shutil.which("nvidia-smi") else ("build", "build-cuda")
    for name in order:
        if (ROOT / name / "src/cli/mylos").is_file():
            return bench.Place.of(None, ROOT / name, ROOT)
    raise PlanError(f"there is no mylos in {ROOT / 'build'} or {ROOT / 'build-cuda'}; build it (docs/build.md) or name a build folder with --build")


def split(plan, out, arguments):
    """Rows to run, and (row, state, outcome) of the others."""
    latest, seconds = history.read(out)
    to_run, others = [], []
    for row in plan.rows:
        state, outcome = history.state(row, history.definition(row, plan, ROOT), latest, out)
        if state == "done" and not arguments.again or state == "failed" and not (arguments.retry or arguments.again):
            others.append((row, state, outcome))
        else:
            to_run.append(row)
            if state == "open" and outcome and outcome["status"] == "ok":
                say(f"{row.name}: measured again: {outcome['reason']} ({outcome['call']})")
    return to_run, others, seconds


def needed_weights(rows, plan):
    """Rows done in an earlier call, whose weights are of that call, run again when a row to run starts from them."""
    return with_needed(plan.rows, rows) if rows else []


def launcher(ranks, has_mpi):
    if not ranks:
        return ()
    if ranks > 1 and not has_mpi:
        raise PlanError(f"--mpirun {ranks}: this mylos runs as 1 process (`mylos version`: it has no MPI); give 1 or leave it out")
    if not shutil.which("mpirun"):
        raise PlanError(f"--mpirun {ranks}: there is no mpirun on PATH; load an MPI or leave it out")
    return ("mpirun", "-n", str(ranks))


def report(campaign, out=None, check=False):
    """Exit status of the campaign's own report."""
    if importlib.util.find_spec("h5py") is None:
        where = f" --results {out}" if out else ""
        say(f"no report: this Python has no module 'h5py'; run `mylos campaign report {campaign.name}{where}` where it is", sys.stderr)
        return 1
    script = campaign.folder / "report.py"
    more = [*(["--results", str(out)] if out else []), *(["--check"] if check else [])]
    done = subprocess.run([sys.executable, str(script), *more], env=environment(), stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    lines = done.stderr.splitlines()
    if done.returncode and lines and re.match(RAISED, lines[-1]):
        lines = [*(line for line in lines if line.startswith("report: ")), f"report: {script} failed: {lines[-1]} (run it alone to see where)"]
    for line in lines:
        say(line, sys.stderr)
    return done.returncode


def run(campaign, arguments, python):
    plan = campaign.plan(arguments.only, arguments.scale)
    budget = arguments.budget or (plan.scales[arguments.scale].budget_s if arguments.scale else 0)
    if arguments.sbatch:
        return sbatch(campaign, plan, arguments, budget)
    if arguments.cache and not Path(arguments.cache).is_file():
        raise PlanError(f"--cache {arguments.cache}: there is no such file; `mylos tune` makes one")
    place = place_of(arguments.build)
    with Lock(campaign.out(arguments.out)) as lock:
        return _locked(campaign, plan, place, arguments, budget, python, lock)


def _locked(campaign, plan, place, arguments, budget, python, lock):
    out = lock.folder
    to_run, others, seconds = split(plan, out, arguments)
    for row, state, outcome in others:
        say(f"{row.name}: {state} in call {outcome['call']}{'; ' if outcome['reason'] else ''}{outcome['reason']}")
    plan.rows = needed_weights(to_run, plan)
    if not plan.rows:
        say("nothing left to run; --again measures finished rows once more, --retry the failed ones")
        failed = any(state == "failed" for _, state, _ in others)
        if arguments.keep:
            keep.keep(campaign, out)
        return report(campaign, out) or int(failed)
    programs = environment()
    if place.libraries:
        programs |= {"LD_LIBRARY_PATH": f"{place.libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    here = machine.look(place.mylos, programs, arguments.mpirun or 1)
    cache = str(Path(arguments.cache).resolve()) if arguments.cache else ""
    python = arguments.python or python or shutil.which("python3") or sys.executable
    options = bench.Options(
        out, cache, python, budget, launcher(arguments.mpirun, here.has_mpi), estimates=seconds,
        refuse=lambda row: machine.refusal(row, here, place, python, config_path(row, plan.folder, ROOT), programs),
        mark=lambda row: {"definition": history.definition(row, plan, ROOT)},
    )  # fmt: skip
    rows, interrupted = bench.measure(plan, place, options, lock)
    bench.summary(rows)
    if arguments.keep:
        keep.keep(campaign, out)
    reported = report(campaign, out)
    if interrupted:
        return bench.INTERRUPTED
    measured = any(o["status"] == "ok" for o in rows) or any(state == "done" for _, state, _ in others)
    failed = any(o["status"] in ("failed", "skipped") for o in rows) or any(state == "failed" for _, state, _ in others)
    return 1 if failed or reported or not measured else 0


def sbatch(campaign, plan, arguments, budget):
    more = []
    for name in ("scale", "only", "budget", "out", "cache", "python", "mpirun", "build"):
        value = getattr(arguments, name)
        more += [f"--{name}", str(Path(value).resolve()) if name in ("out", "cache", "build") else str(value)] if value else []
    more += [f"--{name}" for name in ("keep", "again", "retry") if getattr(arguments, name)]
    text = slurm.script(campaign, plan, more, budget)
    print(text, end="")
    return slurm.submit(text) if arguments.submit else 0
