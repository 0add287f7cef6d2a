"""Progress on standard error: tqdm's bar in terminals and notebooks, elsewhere a plain line every few seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_MESSAGES = 0.2


def progress(
    items: Iterable[T], message: Callable[[T], Any] | None = None, seconds: float | None = None, title: str = "", unit: str = "step"
) -> Iterator[T]:
    """The items, one after another, while a bar shows how many have come, of how many where they have a length.

        for loss in progress(minimize(f, data, Adam()), lambda loss: f"loss {loss:.3f}"): ...

    message: of the latest item, shown beside the bar.  seconds: how often it is asked and shown; by default every 0.2 for a
    bar, every 10 for lines, which come where there is neither a terminal nor a notebook, or no tqdm.
    """
    with bar(_length(items), title, unit, getattr(items, "number", 0), seconds, leave=True) as shown:
        every, said = SECONDS_BETWEEN_MESSAGES if seconds is None else seconds, -math.inf
        for item in items:
            now = time.monotonic()
            if message is not None and (shown.is_due() if isinstance(shown, Lines) else now - said >= every):
                said = now
                shown.set_postfix_str(str(message(item)), refresh=False)
            shown.update()
            yield item


def bar(
    total: int | None, title: str, unit: str = "batch", done: int = 0, seconds: float | None = None, leave: bool = False
) -> Any:
    """A context manager with set_postfix_str(text, refresh) and update() that shows how many of `total` are done.

    leave: a bar stays when it is done.
    """
    if sys.stderr.isatty() or in_notebook():
        try:
            from tqdm.auto import tqdm
        except ImportError:  # the extra `train` isn't installed
            return Lines(total, title, unit, done, seconds)
        return tqdm(total=total, desc=title or None, unit=unit, initial=done, leave=leave, dynamic_ncols=True)
    return Lines(total, title, unit, done, seconds)


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config


class Lines:
    """Progress as plain lines, in the form of tqdm's interface that is used here."""

    def __init__(self, total: int | None, title: str, unit: str = "batch", done: int = 0, seconds: float | None = None) -> None:
        self.total, self.title, self.unit, self.done, self.text = total, title, unit, done, ""
        self.seconds = SECONDS_BETWEEN_LINES if seconds is None else seconds
        self.last = time.monotonic()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing to put away: every line is complete."""

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """What the next line says beside the count."""
        self.text = text

    def is_due(self) -> bool:
        """Whether the next update prints a line."""
        return time.monotonic() - self.last >= self.seconds

    def update(self) -> None:
        """One more is done."""
        self.done += 1
        if self.is_due():
            self.last = time.monotonic()
            print("  ".join(filter(None, (self._count(), self.text))), file=sys.stderr, flush=True)

    def _count(self) -> str:
        of = "" if self.total is None else f"/{self.total}"
        return f"{self.title}{': ' * bool(self.title)}{self.unit} {self.done}{of}"


def _length(items: Any) -> int | None:
    try:
        return len(items)
    except TypeError:  # it has none, or no end
        return None
