"""What a call has left: peers' JSON as bundles, whether a row's bundle is whole, and the table of a folder."""

import functools
import importlib.util
import subprocess
import sys
from pathlib import Path

from .errors import PlanError
from .progress import say


KEPT_BYTES = 16 << 20  # most of one file in the tree
NOT_RECORDS = (".rows.json", ".trace.json")


@functools.cache
def _say_once(text: str) -> None:
    say(text, sys.stderr)


def to_bundles(out: Path, pattern: str = "*") -> int:
    """Makes bundles of peers' JSON in a folder; returns how many records, or unreadable files, gave none."""
    try:
        from mylos_report import peer_bundle
        from mylos_report.bundle import BundleError
    except ModuleNotFoundError as error:
        _say_once(f"no bundles of peers: Python has no module '{error.name}'; run `tools/device bundle {out}` where h5py is")
        return 1
    bad = 0
    for path in sorted(p for p in out.glob(f"{pattern}.json") if not p.name.endswith(NOT_RECORDS)):
        row = path.name.split(".")[0]
        try:
            _, failures = peer_bundle.convert(path, out, row)
        except (BundleError, OSError) as error:
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


def of_row(folder: Path, row: str, call: str) -> list:
    """A row's own bundle and those beside it (a profile, cases of a peer), without weights."""
    return [p for p in sorted(folder.glob(f"{row}.*{call}*.h5")) if p.is_file() and not p.name.endswith(".weights.h5")]


def lacks(folder: Path, row, call: str, mylos: Path | None = None, environment: dict | None = None) -> str:
    """Why what a row left does not count; empty: it does. Where there is no h5py, a peer's record counts as its bundle."""
    found = of_row(folder, row.name, call)
    if row.peer and not found:
        has_h5py = importlib.util.find_spec("h5py") is not None
        return "it left no bundle" if has_h5py else "" if any(folder.glob(f"{row.name}.*{call}*.json")) else "it left no record"
    if not row.peer and folder / f"{row.name}.{call}.h5" not in found:
        return "it left no bundle"
    return next(filter(None, (invalid(path, mylos, environment) for path in found)), "")


def invalid(path: Path, mylos: Path | None = None, environment: dict | None = None) -> str:
    """Why a bundle does not count: damaged, unfinished, or with figures that its samples do not give. By this Python's h5py, else by `mylos validate`."""
    try:
        from mylos_report import recompute
        from mylos_report.bundle import Bundle, BundleError
    except ModuleNotFoundError:
        return _by_mylos(path, mylos, environment) if mylos else ""
    try:
        read = Bundle(path)
    except BundleError as error:
        return str(error)
    if not read.attribute("/", "complete"):
        return f"'{path}' is not complete (status: {read.attribute('/', 'status', 'unknown')})"
    return next(iter(recompute.disagreements(read)), "")


def _by_mylos(path, mylos, environment):
    try:
        done = subprocess.run([mylos, "validate", path], capture_output=True, text=True, errors="replace", env=environment, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"'{path}' cannot be validated: {error}"
    lines = (done.stdout + done.stderr).strip().splitlines()
    unfinished = next((line for line in lines if "/:complete" in line), "")
    return (lines[0] if lines else f"'{path}' is not valid") if done.returncode else unfinished


def table(out: Path, call: str) -> None:
    try:
        from mylos_report import campaign
    except ModuleNotFoundError as error:
        say(f"no table: Python has no module '{error.name}'; run `tools/report {out}` where h5py is", sys.stderr)
        return
    rows, problems, _ = campaign.read(out, call)
    if rows:
        say(campaign.short_table(rows))
    for what in problems:  # notes are of bundles of other kinds, which have tables of their own
        say(what, sys.stderr)
