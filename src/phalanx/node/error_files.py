"""What a member has written about its failure, in the form of torch's elastic processes."""

from __future__ import annotations

import json

ERROR_BYTES = 1 << 20
"""Longer files are not read: they have a traceback of every cause."""
TOLD_CHARACTERS = 300


def told_in(data: bytes) -> str:
    """The message of an error file, in one line; "" where it has none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    for _ in range(2):  # torchrun's own failure, and within it that of a process
        found = found.get("message") if isinstance(found, dict) else found
    if not isinstance(found, str):
        return ""
    line = " ".join("".join(c if c.isprintable() else " " for c in found).split())
    return line if len(line) <= TOLD_CHARACTERS else line[: TOLD_CHARACTERS - 3] + "..."
