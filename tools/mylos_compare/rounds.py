"""Rounds of two programs in turns: A B, B A, A B, ...

Why in turns: load, heat and clocks of a machine wander over minutes by more than the changes one looks for. The two runs of a pair lie side by
side in time, so what wanders meets both; who goes first alternates, so that what the first does to the second (heat, caches) meets
both alike. Why runs and not samples are what is tested: samples of one run share its addresses, its clocks and its luck, and taking them for
independent finds differences that the next run does not have. So each round is a bundle of its own, and `mylos diff --paired` tests the
differences of the pairs' medians by signed ranks.
"""

import json
import math
import os
import pathlib
import subprocess
import time

from mylos_device import process

FEWEST = 6  # pairs: below, no order of signs is rarer than 5 %
FEWEST_BY_DEFAULT = 12  # with fewer, one disturbed round reaches the ends of the interval


class CompareError(Exception):
    """What went wrong, in one line for the user."""


def rounds_for(cases):
    """Pairs with which the clearest result is significant beside `cases` - 1 others: cases * 2 / 2^n < 0.05 (Holm)."""
    return max(FEWEST, math.floor(math.log2(40 * max(1, cases))) + 1)


def order(number):
    """Who goes first in round `number`, from 1: A, B, A, ..."""
    return ("a", "b") if number % 2 else ("b", "a")


class Rounds:
    def __init__(self, programs, pattern, budget, folder, log, interrupts, more=None):
        """more: a side's own further arguments."""
        self.programs, self.folder, self.log, self.interrupts = programs, pathlib.Path(folder), log, interrupts
        self.arguments = [pattern, "--budget", str(budget)]
        self.more = more or {}
        # One name for all runs, so that the comparison knows that they ran in one turn on one machine.
        self.environment = dict(os.environ)
        self.environment.setdefault("MYLOS_CALL", time.strftime("compare-%Y%m%dT%H%M%SZ-", time.gmtime()) + os.urandom(2).hex())

    def prepare(self):
        for side in self.programs:
            (self.folder / side).mkdir(parents=True, exist_ok=True)
            left = sorted((self.folder / side).glob("*.h5"))
            if left:
                raise CompareError(f"'{left[0]}' is there already; name another folder or remove it")

    def run(self, side, bundle):
        """One run of a side's program; seconds it took."""
        command = [str(self.programs[side]), *self.arguments, *self.more.get(side, []), "--bundle", str(bundle)]
        begin = time.monotonic()
        with open(self.log, "ab") as log:
            log.write(f"$ {' '.join(command)}\n".encode())
            log.flush()
            try:
                with process.running(command, self.environment, log, self.interrupts) as program:
                    status = program.wait()
            except OSError as error:
                raise CompareError(f"cannot run '{command[0]}': {error.strerror}") from error
        if status != 0:
            raise CompareError(f"'{command[0]}' of side {side.upper()} ended with status {status}: {self.last_line()} (all of it: {self.log})")
        if not bundle.is_file():
            raise CompareError(f"'{command[0]}' of side {side.upper()} left no bundle '{bundle}'")
        return time.monotonic() - begin

    def warm_up(self):
        """A run whose bundle is not kept: the machine as the first pair finds it is as the others find it."""
        bundle = self.folder / "warm-up.h5"
        bundle.unlink(missing_ok=True)  # of a comparison that was stopped there
        seconds = self.run("a", bundle)
        return bundle, seconds

    def round(self, number):
        return {side: self.run(side, self.folder / side / f"{number:03d}.h5") for side in order(number)}

    def last_line(self):
        lines = pathlib.Path(self.log).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing was printed"


def cases_of(mylos, bundle):
    """How many cases a bundle has that were timed."""
    done = subprocess.run([str(mylos), "inspect", str(bundle), "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise CompareError(f"the first run's bundle cannot be read: {done.stderr.strip()}")
    return sum(1 for case in json.loads(done.stdout).get("cases", []) if case.get("median") is not None)
