"""Patterns that users write, which are matched in linear time and limited memory.

The syntax is RE2's, as in Go and so in Volcano: it has no look-around and no back references.
"""

from __future__ import annotations

import functools
from typing import Protocol

import re2

MAX_PATTERN = 1_000
"""The largest number of characters of a pattern."""
MAX_MEMORY_BYTES = 1_048_576
"""The largest size in bytes of one compiled pattern. The time to match one character of a name
grows with this size.
"""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str, /) -> object | None: ...


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Return a compiled pattern, for searches in names. Raises ValueError that says what is
    wrong.
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a pattern has up to {MAX_PATTERN} characters, not {len(pattern)}")
    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False
    try:
        found: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace")
        raise ValueError(f"{pattern!r} is not a regular expression: {reason}") from None
    return found


def pattern_fault(pattern: str) -> str | None:
    """Return why the text is not a pattern; None if it is one."""
    try:
        compiled(pattern)
    except ValueError as error:
        return str(error)
    return None


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern occurs in the name. An invalid pattern occurs in no name."""
    try:
        return compiled(pattern).search(name) is not None
    except ValueError:
        return False
