"""Progress within an epoch, on standard error: tqdm's bar in a terminal, else a plain line every few seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

SECONDS_BETWEEN_LINES = 10.0


def bar(total: int, title: str) -> Any:
    """A context manager with set_postfix_str(text, refresh) and update() that shows how many of `total` batches are done."""
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:  # the extra `train` isn't installed
            return Lines(total, title)
        return tqdm(total=total, desc=title, unit="batch", leave=False, dynamic_ncols=True)
    return Lines(total, title)


class Lines:
    """Progress as plain lines, in the form of tqdm's interface that the loop uses."""

    def __init__(self, total: int, title: str) -> None:
        self.total, self.title, self.done, self.text = total, title, 0, ""
        self.last = time.monotonic()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing to put away: every line is complete."""

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        """What the next line says beside the count."""
        self.text = text

    def update(self) -> None:
        """One batch more is done."""
        self.done += 1
        if time.monotonic() - self.last >= SECONDS_BETWEEN_LINES:
            self.last = time.monotonic()
            print(f"{self.title}: batch {self.done}/{self.total}  {self.text}", file=sys.stderr, flush=True)
