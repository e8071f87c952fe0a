"""Measures the rows of a plan one after the other in one call, and keeps what each left.

A row that fails, or takes longer than its limit, is noted with its reason and does not stop the rest. In OUT: a bundle for each
mylos row and each case of a peer, peers' JSON, logs/, tokens/, and <call>.rows.json with every row's outcome. An interrupt (Ctrl-C,
SIGTERM, SIGHUP) ends the row under way with all that it started; what was measured before is kept and shown.
"""

import contextlib
import datetime
import json
import math
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .errors import PlanError
from .interrupt import Interrupts
from .plan import Plan, Row, load
from .progress import Progress, say, shown
from .tokens import write_text_tokens, write_tokens

INTERRUPTED = 130  # exit status, as shells give it for Ctrl-C


@dataclass
class Place:
    """Where the programs are: a pack, or a build folder beside the sources."""

    mylos: Path
    source: Path
    libraries: Path | None
    bench: Path  # mylos-bench, which need not be there

    @staticmethod
    def of(pack: Path | None, build: Path | None, source: Path) -> "Place":
        if pack:
            place = Place(pack / "bin/mylos", pack / "source", pack / "lib", pack / "bin/mylos-bench")
        else:
            place = Place(build / "src/cli/mylos", source, None, build / "benchmarks/mylos-bench")
        if not place.mylos.is_file():
            remedy = "`tools/device pack BUILD DEST` makes it" if pack else f"build it with: ninja -C {build} src/cli/mylos"
            raise PlanError(f"there is no {place.mylos}; {remedy}")
        return place


@dataclass
class Options:
    out: Path
    cache: str = ""
    python: str = sys.executable
    budget_s: float = 0  # 0: no bound
    launcher: tuple = ()  # before the command of each mylos row
    refuse: Callable = lambda row: ""  # why a row cannot run here; empty: it can
    mark: Callable = lambda row: {}  # more of what its outcome says
    estimates: dict = field(default_factory=dict)  # seconds that rows took before, by name

    def __post_init__(self):
        if not 0 <= self.budget_s < math.inf:
            raise PlanError(f"--budget is {self.budget_s}; it must be a finite number of seconds, 0 for no bound")
        now = datetime.datetime.now(datetime.timezone.utc)
        self.call = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


class Bench:
    def __init__(self, place: Place, plan: Plan, options: Options, interrupts: Interrupts):
        self.place, self.plan, self.options, self.interrupts = place, plan, options, interrupts
        self.begin = time.monotonic()
        self.outcomes = []
        self.refused = {row.name: options.refuse(row) for row in plan.rows}
        rows = [row for row in plan.rows if not self.refused[row.name]]
        self.progress = Progress([(row.name, options.estimates.get(row.name), row.limit_s) for row in rows])
        self.interrupted = False
        try:
            for folder in ("logs", "tokens"):
                (options.out / folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PlanError(f"--out {options.out} cannot be a folder of results: {error}") from error
        old = os.environ.get("LD_LIBRARY_PATH", "")
        # Peers bring libraries of their own.
        self.peer_environment = os.environ | {"MYLOS_CALL": options.call, "PYTHONUNBUFFERED": "1", "OMP_PROC_BIND": "false"}
        more = {"LD_LIBRARY_PATH": f"{place.libraries}:{old}"} if place.libraries else {}
        self.environment = self.peer_environment | more

    def path(self, row: str, suffix: str) -> Path:
        return self.options.out / f"{row}.{self.options.call}{suffix}"

    def filled(self, text: str) -> str:
        """The text with the paths that its placeholders stand for."""

        if "{data}" in text:
            data = os.environ.get("MYLOS_DATA", "")
            if not data or not Path(data).exists():
                what = f"MYLOS_DATA is {data!r}, and nothing is there" if data else "MYLOS_DATA is not set"
                raise PlanError(f"it reads token files of yours, and {what}; set it to what `mylos tokenize --out` named")
            text = text.replace("{data}", data)

        def file(match):
            kind, name = match.groups()
            if kind == "weights":
                return str(self.path(name, ".weights.h5"))
            about = self.plan.tokens[name]
            path = self.options.out / f"tokens/{name}.bin"
            if not path.is_file() or path.stat().st_size != 4 * about["count"]:
                if about["order"] == "text":
                    environment = self.environment | {"MYLOS_PYTHON": self.options.python}
                    write_text_tokens(path, self.place.mylos, environment, about["vocab"], about["count"])
                else:
                    write_tokens(path, **about)
            return str(path)

        return re.sub(r"\{(tokens|weights)\.([\w-]+)\}", file, text)

    def config_of(self, row: Row) -> Path:
        beside = self.plan.folder / row.config
        return beside if beside.is_file() else self.place.source / row.config

    def command(self, row: Row) -> list:
        arguments = [self.filled(text).replace("{out}", str(self.path(row.name, ""))) for text in row.arguments]
        if row.peer:
            program = self.place.source / f"benchmarks/peers/{row.peer}.py"
            named = any("{out}" in text for text in row.arguments)
            output = [] if named else ["--json", str(self.path(row.name, ".json"))]
            return [self.options.python, str(program), *arguments, *output]
        if row.bench:
            return [str(self.place.bench), row.bench, *arguments, "--bundle", str(self.path(row.name, ".h5"))]
        own = {"output.bundle": str(self.path(row.name, ".h5")), "output.progress": "lines"}
        own |= {"train.products": self.options.cache} if self.options.cache else {}
        overrides = [*map(self.filled, row.overrides), *(f"{key}={json.dumps(value)}" for key, value in own.items())]
        overrides = ["--" + text for text in overrides]
        return [*self.options.launcher, str(self.place.mylos), "train", str(self.config_of(row)), *overrides, *arguments]

    def run(self, row: Row) -> dict:
        left = self.options.budget_s - (time.monotonic() - self.begin) if self.options.budget_s else row.limit_s
        log = self.path(f"logs/{row.name}", ".log")
        outcome = {"row": row.name, "call": self.options.call, "log": str(log.relative_to(self.options.out))}
        outcome |= self.options.mark(row)
        if self.refused[row.name]:
            return outcome | {"status": "refused", "reason": self.refused[row.name], "seconds": 0}
        if self.interrupted:
            return outcome | {"status": "skipped", "reason": "the call was interrupted", "seconds": 0}
        if left < min(10, row.limit_s):
            return outcome | {"status": "skipped", "reason": f"the budget of {self.options.budget_s:.0f} s is spent", "seconds": 0}
        start = time.monotonic()
        limit = min(row.limit_s, left)
        command = []
        try:
            self.progress.begin(row.name)
            command = self.command(row)
            environment = self.peer_environment if row.peer else self.environment
            status, reason = self.finish(command, environment, log, limit)
        except KeyboardInterrupt:
            self.interrupted = True
            status, reason = "failed", "interrupted"
        except Exception as error:  # of this row alone: its tokens, configuration or program
            known = isinstance(error, (OSError, PlanError))
            status, reason = "failed", f"it could not be started: {'' if known else type(error).__name__ + ': '}{error}"
        seconds = time.monotonic() - start
        return outcome | {"status": status, "reason": reason, "seconds": round(seconds, 2), "command": command}

    def finish(self, command: list, environment: dict, log: Path, limit: float) -> tuple[str, str]:
        """Status and reason; a program that takes too long, or is waited for no longer, is killed with all that it started."""
        with log.open("w") as output:
            process = None
            try:
                with self.interrupts.held():
                    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
                code = self.progress.wait(process, log, limit)
            except subprocess.TimeoutExpired:
                kill_group(process)
                return "failed", f"took longer than {limit:.0f} s; its last words: {last_words(log)}"
            except BaseException:
                if process:
                    kill_group(process)
                raise
        return ("ok", "") if code == 0 else ("failed", f"exit status {code}: {last_words(log)}")

    def run_all(self) -> None:
        for row in self.plan.rows:
            outcome = self.run(row)
            try:
                with self.interrupts.held():
                    self.note(outcome)
            except KeyboardInterrupt:
                self.interrupted = True

    def note(self, outcome: dict) -> None:
        self.outcomes.append(outcome)
        (self.options.out / f"{self.options.call}.rows.json").write_text(json.dumps(self.outcomes, indent=1) + "\n")
        self.progress.end(outcome)


def kill_group(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][-300:] if lines else "it printed nothing"


def to_bundles(out: Path) -> int:
    """Makes bundles of all peers' JSON in a folder; returns how many records, or unreadable files, gave none."""
    try:
        from mylos_report import peer_bundle
        from mylos_report.bundle import BundleError
    except ModuleNotFoundError as error:
        say(f"no bundles of peers: Python has no module '{error.name}'; run `tools/device bundle {out}` where h5py is", sys.stderr)
        return 1
    bad = 0
    for path in sorted(out.glob("*.json")):
        if path.name.endswith((".rows.json", ".trace.json")):
            continue
        row = path.name.split(".")[0]
        try:
            _, failures = peer_bundle.convert(path, out, row)
        except BundleError as error:
            failures = [str(error)]
        bad += len(failures)
        for what in failures:
            say(f"{path.name}: {what}", sys.stderr)
    return bad


def bundle(folder: Path) -> int:
    """The command: exit status 1 when a record gave no bundle."""
    if not folder.is_dir():
        raise PlanError(f"there is no folder {folder}; give the one that `tools/device bench --out` named")
    return 1 if to_bundles(folder) else 0


def table(out: Path, call: str) -> None:
    try:
        from mylos_report import campaign
    except ModuleNotFoundError as error:
        say(f"no table: Python has no module '{error.name}'; run `tools/report {out}` where h5py is", sys.stderr)
        return
    rows, problems, notes = campaign.read(out, call)
    if rows:
        say(campaign.short_table(rows))
    for what in problems + notes:
        say(what, sys.stderr)


def measure(plan: Plan, place: Place, options: Options) -> tuple[list, bool]:
    """Runs the rows and shows their table; outcomes, and whether an interrupt ended it."""
    with Interrupts() as interrupts:
        run = Bench(place, plan, options, interrupts)
        say(f"call {options.call}: {len(plan.rows)} rows into {shown(options.out)}")
        run.run_all()
        to_bundles(options.out)
        say()
        table(options.out, options.call)
    return run.outcomes, run.interrupted


def summary(outcomes: list) -> None:
    bad = [o for o in outcomes if o["status"] != "ok"]
    for o in bad:
        say(f"{o['row']}: {o['status']}: {o['reason']}")
    say(f"{len(outcomes) - len(bad)} rows measured, {len(bad)} not")


def bench(place: Place, plan_path: Path, only: str, options: Options) -> int:
    outcomes, interrupted = measure(load(plan_path, only, place.source / "benchmarks/peers"), place, options)
    summary(outcomes)
    return INTERRUPTED if interrupted else 1 if any(o["status"] != "ok" for o in outcomes) else 0
