"""Regular expressions of the user on names: PlanError for what is none, and for one that takes longer than a name is worth."""

import contextlib
import re
import signal
import threading

from .errors import PlanError

LIMIT_S = 5
MOST = 1000  # characters


def compiled(text: str, where: str) -> re.Pattern:
    if len(text) > MOST:
        raise PlanError(f"{where} has {len(text)} characters; a pattern of names has at most {MOST}")
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise PlanError(f"{where} {text!r} is no regular expression: {error}") from error


@contextlib.contextmanager
def limited(where: str):
    """Nested repetitions take for ever on a name that just does not match. Only the main thread has an alarm."""

    def late(number, frame):
        raise PlanError(f"{where} takes longer than {LIMIT_S} s on the names of rows; leave out a repetition within a repetition")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
