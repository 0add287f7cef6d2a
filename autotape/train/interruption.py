"""What may come between a training and its files: signals in the middle of a step, and another training in the same folder."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Signals:
    """SIGINT and SIGTERM, held back until somebody has time for them.  Only the main thread can; elsewhere it does nothing."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._process = os.getpid()
        self._handlers: dict[int, Handler] = {}

    def catch(self) -> None:
        """Hold back from now on; those that the program ignores stay ignored."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if before not in (signal.SIG_IGN, None):
                self._handlers[number] = Handler(self, before)
                signal.signal(number, self._handlers[number])

    def release(self) -> None:
        """As it was before.  Where somebody else has taken a signal over meanwhile, ours only hands it on from now on."""
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            current: Any = signal.getsignal(number)
            if current is handler:
                signal.signal(number, handler.before)

    def holds(self, number: int) -> bool:
        """Whether it is held back; not in a forked process, which has no steps to wait for."""
        return number in self._handlers and os.getpid() == self._process

    def deliver(self) -> None:
        """Do what the signal that was held back does without this."""
        if self.received is None:
            return
        number, self.received = self.received, None
        self.release()
        usual = _usual(number)
        if usual is signal.SIG_DFL:
            raise SystemExit(128 + number)  # an end with all that Python does at one
        if callable(usual):
            usual(number, sys._getframe())

    def note(self, number: signal.Signals) -> None:
        """One has come; a second is delivered."""
        if self.received is not None:
            self.deliver()
        self.received = number
        with contextlib.suppress(Exception):  # whatever stderr is, and whatever was just being written to it
            print(f"{number.name}: an end after this step, with a snapshot; a second one ends at once", file=sys.stderr, flush=True)


class Handler:
    """What is called when a signal comes.  It keeps no training alive."""

    def __init__(self, signals: Signals, before: Any) -> None:
        self.signals, self.before = weakref.ref(signals), before

    def __call__(self, number: int, frame: Any) -> None:
        if (alive := self.signals()) is not None and alive.holds(number):
            alive.note(signal.Signals(number))
        elif callable(self.before):
            self.before(number, frame)
        else:
            signal.signal(number, self.before)
            signal.raise_signal(number)


def _usual(number: int) -> Any:
    """The handler of a signal below those of trainings, which would hold it back again."""
    handler = signal.getsignal(number)
    while isinstance(handler, Handler):
        handler = handler.before
    return handler


class Lock:
    """A folder for one training at a time: the system frees it when the process ends, however it does.  Where it can't lock, none is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor: int | None = None
        self._process = os.getpid()

    def take(self) -> None:
        """Raises BlockingIOError where another training has it."""
        if fcntl is None:
            return
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._descriptor = descriptor
        except OSError as e:
            os.close(descriptor)
            if isinstance(e, BlockingIOError):  # and not a file system without locks
                raise BlockingIOError(
                    f"another training writes its snapshots into {self.folder}: close() that one if it was left, or name another folder"
                ) from None

    def release(self) -> None:
        """Let another one have it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            if os.getpid() == self._process:  # a forked one has the descriptor too, but not the say
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
