"""Measures the rows of a plan one after the other in one call, and keeps what each left.

A row that fails, or takes longer than its limit, is noted with its reason and does not stop the rest. In OUT: a bundle for each
mylos row and each case of a peer, peers' JSON, logs/, tokens/, and <call>.rows.json with every row's outcome. An interrupt (Ctrl-C,
SIGTERM, SIGHUP) ends the row under way with all that it started; what was measured before is kept and shown. A row is measured when its
program ended well and left a bundle that is whole: complete, and with figures that follow from its samples.
"""

import datetime
import json
import math
import os
import re
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import bundles, outcomes, process
from .errors import PlanError
from .interrupt import Interrupts
from .lock import Lock
from .plan import Plan, Row, config_path, load
from .progress import Progress, say, shown
from .tokens import token_file

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
    def __init__(self, place: Place, plan: Plan, options: Options, interrupts: Interrupts, lock: Lock):
        self.place, self.plan, self.options, self.interrupts, self.lock = place, plan, options, interrupts, lock
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
            raise PlanError(f"{options.out} cannot be a folder of results: {error}; name one that can be written with --out") from error
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
            environment = self.environment | {"MYLOS_PYTHON": self.options.python}
            return str(token_file(self.options.out / "tokens", name, self.plan.tokens[name], self.place.mylos, environment))

        return re.sub(r"\{(tokens|weights)\.([\w-]+)\}", file, text)

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
        return [*self.options.launcher, str(self.place.mylos), "train", str(config_path(row, self.plan.folder, self.place.source)), *overrides, *arguments]

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
            self.lock.note(call=self.options.call, row=row.name)
            # For the case that nobody is left to say how it ended.
            self.record([*self.outcomes, outcome | {"status": "skipped", "reason": "the call was killed while the row ran", "seconds": 0}])
            command = self.command(row)
            environment = self.peer_environment if row.peer else self.environment
            status, reason = process.run(command, environment, log, limit, self.interrupts, self.progress.wait, self.lock)
            why = self.why_not(row, environment)
            if status == "ok" and why:
                status, reason = "failed", f"{why}; the program ended well and said: {process.last_words(log)}"
        except KeyboardInterrupt:
            self.interrupted = True
            status, reason = "skipped", "interrupted while it ran"  # nothing is wrong with it: the next run takes it up
        except Exception as error:  # of this row alone: its tokens, configuration or program
            known = isinstance(error, (OSError, PlanError))
            status, reason = "failed", f"it could not be started: {'' if known else type(error).__name__ + ': '}{error}"
        seconds = time.monotonic() - start
        return outcome | {"status": status, "reason": reason, "seconds": round(seconds, 2), "command": command}

    def why_not(self, row: Row, environment: dict) -> str:
        """Why what the program left does not count; empty: it does."""
        if row.peer:
            bundles.to_bundles(self.options.out, f"{row.name}.*{self.options.call}*")
        return bundles.lacks(self.options.out, row, self.options.call, self.place.mylos, environment)

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
        self.record(self.outcomes)
        self.progress.end(outcome)

    def record(self, rows: list) -> None:
        path = self.options.out / f"{self.options.call}.rows.json"
        try:
            outcomes.write(path, rows)
        except OSError as error:
            raise PlanError(f"{path} cannot be written: {error}; make room and run again: it goes on where it ended") from error


def measure(plan: Plan, place: Place, options: Options, lock: Lock) -> tuple[list, bool]:
    """Runs the rows and shows their table; outcomes, and whether an interrupt ended it. `lock`: held on the folder of results."""
    with Interrupts() as interrupts:
        run = Bench(place, plan, options, interrupts, lock)
        say(f"call {options.call}: {len(plan.rows)} rows into {shown(options.out)}")
        run.run_all()
        say()
        bundles.table(options.out, options.call)
    return run.outcomes, run.interrupted


def summary(rows: list) -> None:
    bad = [o for o in rows if o["status"] != "ok"]
    for names, o in outcomes.alike(bad):
        say(f"{names}: {o['status']}: {o['reason']}")
    say(f"{len(rows) - len(bad)} rows measured, {len(bad)} not")


def bench(place: Place, plan_path: Path, only: str, options: Options) -> int:
    plan = load(plan_path, only, place.source / "benchmarks/peers")
    with Lock(options.out) as lock:
        rows, interrupted = measure(plan, place, options, lock)
    summary(rows)
    return INTERRUPTED if interrupted else 1 if any(o["status"] != "ok" for o in rows) else 0
