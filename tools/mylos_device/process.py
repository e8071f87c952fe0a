"""A program of a row: started in a group of its own, ended with all that it started, and by the kernel when the run that started it is killed."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

from .outcomes import OUT_OF_TIME
from .progress import plain

PR_SET_PDEATHSIG = 1  # sys/prctl.h


def last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return plain(lines[-1][-300:]) if lines else "it printed nothing"


def dies_with_parent():
    """For Popen's preexec_fn, or None where no kernel does it: there the lock on the folder of results tells the next run."""
    if not sys.platform.startswith("linux"):
        return None
    library, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def ask():
        library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it was killed before this
            os._exit(1)

    return ask


def kill_group(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def running(command, environment, output, interrupts, pass_fds=()):
    """The process, with all it prints in `output`; it and all that it started are killed when the block ends by an exception."""
    process = None
    try:
        with interrupts.held():
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment,
                                       start_new_session=True, preexec_fn=dies_with_parent(), pass_fds=pass_fds)  # fmt: skip
        yield process
    except BaseException:
        if process:
            kill_group(process)
        raise


def run(command, environment, log, limit, interrupts, wait, lock):
    """Status and reason; `wait(process, log, limit)` waits for the program, and TimeoutExpired of it says that it took too long."""
    try:
        with log.open("w") as output, running(command, environment, output, interrupts, (lock.descriptor,)) as process:
            lock.note(program=process.pid)
            code = wait(process, log, limit)
    except subprocess.TimeoutExpired:
        return "failed", f"{OUT_OF_TIME} {limit:.0f} s; its last words: {last_words(log)}"
    return ("ok", "") if code == 0 else ("failed", f"exit status {code}: {last_words(log)}")
