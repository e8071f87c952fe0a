"""What is shown while rows run: which one, how long it has taken, what it says, and how much time is left.

On a terminal a line is drawn over again twice a second; elsewhere a row has one line when it begins and one when it ends. The time left
is what rows took before, or else at most their limits: shown as such.
"""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

TICK_S = 0.5


def say(text: str = "", file=None) -> None:
    """Prints, and goes on without a reader: results count more than a terminal that has hung up."""
    with contextlib.suppress(OSError):
        print(text, file=file or sys.stdout, flush=True)


def shown(path: Path) -> str:
    """From the working directory, where it lies in it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def plain(text: str, most: int = 300) -> str:
    """One line of a message from what others have written: a log, a record, an argument."""
    shown = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return shown if len(shown) <= most else f"{shown[:most]}..."


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 400))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return plain(next((line for line in reversed(lines) if line.strip()), ""))


class Progress:
    def __init__(self, rows: list):
        """rows: (name, seconds it took before or None, most seconds)."""
        self.names = [name for name, _, _ in rows]
        self.expected = {name: (before, limit) for name, before, limit in rows}
        self.done = 0
        self.terminal = sys.stderr.isatty()

    def left(self, elapsed: float = 0) -> str:
        """Of the rows that have not ended."""
        waiting = [self.expected[name] for name in self.names[self.done :]]
        seconds = sum(limit if before is None else before for before, limit in waiting) - elapsed
        return f"{'at most' if any(before is None for before, _ in waiting) else 'about'} {duration(max(seconds, 0))} left"

    def begin(self, name: str) -> None:
        self.label = f"[{self.done + 1}/{len(self.names)}] {name}"
        if not self.terminal:
            say(f"{self.label}: {self.left()}", sys.stderr)

    def wait(self, process: subprocess.Popen, log: Path, limit: float) -> int:
        """The exit status; TimeoutExpired when it takes longer than the limit."""
        start = time.monotonic()
        while True:
            elapsed = time.monotonic() - start
            if not self.terminal or limit - elapsed <= TICK_S:
                return process.wait(max(limit - elapsed, 0))
            try:
                return process.wait(TICK_S)
            except subprocess.TimeoutExpired:
                self.draw(f"{self.label} {duration(elapsed)}, {self.left(elapsed)} | {last_line(log)}")

    def draw(self, line: str) -> None:
        with contextlib.suppress(OSError):
            print(f"\r{line[:118]}\033[K", end="", file=sys.stderr, flush=True)

    def end(self, outcome: dict) -> None:
        self.done += outcome["status"] != "refused"
        if self.terminal:
            self.draw("")
            with contextlib.suppress(OSError):
                print("\r", end="", file=sys.stderr, flush=True)
        if outcome["status"] == "refused":  # many rows for one reason, which comes at the end
            say(f"{outcome['row']}: refused")
            return
        reason = f"; {outcome['reason']}" if outcome["reason"] else ""
        say(f"{outcome['row']}: {outcome['status']} in {outcome['seconds']:.0f} s{reason}")
