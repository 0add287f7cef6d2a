"""Generated code: lines of Python made into a function."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from typing import Any


def indented(lines: Iterable[str]) -> Iterable[str]:
    return (f"    {line}" for line in lines)


def compiled(name: str, head: str, lines: Iterable[str], namespace: dict[str, Any], title: str) -> Any:
    """The function `name` that head and lines define in a namespace; tracebacks and inspect.getsource show its source."""
    source = "\n".join([head, *indented(lines)]) + "\n"
    file = f"<generated: {title}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]
