"""SIGINT, SIGTERM and SIGHUP as KeyboardInterrupt, for as long as the `with` block lasts.

Inside held() a signal waits for the block's end: a process that was just started is known by then, and can be ended. Signals that the
caller had chosen to ignore (nohup) stay ignored. Only for the main thread, as Python's signals are.
"""

import contextlib
import signal

KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    def __enter__(self):
        self._holding = self._pending = False
        self._before = {kind: signal.getsignal(kind) for kind in KINDS}
        for kind, before in self._before.items():
            if before != signal.SIG_IGN:
                signal.signal(kind, self._arrived)
        return self

    def __exit__(self, kind, value, trace):
        for kind, before in self._before.items():
            signal.signal(kind, before)

    def _arrived(self, number, frame):
        if self._holding:
            self._pending = True
        else:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self):
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            if self._pending:
                self._pending = False
                raise KeyboardInterrupt
