"""One run at a time in a folder of results.

    with Lock(folder) as lock: ...     # PlanError says who holds it

The lock (flock on FOLDER/.lock) is passed on to the programs that a run starts, so it is free only when they have ended, too. The file says
who holds it: process, host, call, and the program under way.
"""

import fcntl
import json
import os
import socket
import time
from pathlib import Path

from .errors import PlanError

PATIENCE_S = 2  # the programs of a run that was killed end with it, a moment later


class Lock:
    def __init__(self, folder: Path):
        self.folder, self.path, self._about = folder, folder / ".lock", {}

    def __enter__(self) -> "Lock":
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except (OSError, ValueError) as error:
            raise PlanError(f"{self.folder} cannot be a folder of results: {error}; name one that can be written with --out") from error
        until = time.monotonic() + PATIENCE_S
        while not self._taken():
            if time.monotonic() > until:
                holder = self._holder()
                os.close(self.descriptor)
                raise PlanError(f"{self.folder} is in use: {holder}")
            time.sleep(0.05)
        self.note()
        return self

    def __exit__(self, kind, value, trace):
        os.ftruncate(self.descriptor, 0)
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)  # also of programs that outlive it, which have the same descriptor
        os.close(self.descriptor)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise PlanError(f"{self.path} cannot be locked: {error}; put the results on a file system that knows flock, with --out") from error
        return True

    def note(self, **more) -> None:
        """What the file says of who holds the lock. A full disk takes the words, not the lock."""
        self._about |= {"process": os.getpid(), "host": socket.gethostname(), **more}
        text = json.dumps(self._about).encode()
        try:
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, text, 0)
        except OSError:
            pass

    def _holder(self) -> str:
        return _words(_read(self.descriptor))


def held(folder: Path) -> tuple[str, str]:
    """(who holds the folder's lock, in words; the row under way, or ""), ("", "") where nobody does."""
    try:
        descriptor = os.open(folder / ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return "", ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        about = _read(descriptor)
        return _words(about), str(about.get("row") or "")
    except OSError:
        return "", ""
    finally:
        os.close(descriptor)
    return "", ""


def _read(descriptor: int) -> dict:
    try:
        about = json.loads(os.pread(descriptor, 4096, 0))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def _words(about: dict) -> str:
    if not about:
        return "another run holds its lock; wait for it"
    process, host, row, program = (about.get(key) for key in ("process", "host", "row", "program"))
    if host != socket.gethostname():
        return f"process {process} on {host} measures there; wait for it, or take another folder with --out"
    if Path(f"/proc/{process}").exists() or not Path("/proc/self").exists():
        return f"process {process} measures there{f', row {row}' if row else ''}; wait for it, or end it: kill {process}"
    return f"process {process} was killed, and what it started for row {row} still runs; wait for it, or end it: kill -9 -- -{program}"
