"""Error files of members, in the form that torch's elastic processes write."""

from __future__ import annotations

import json

ERROR_BYTES = 1 << 20
"""The number of bytes of an error file that are read. The message of a longer file is not reported,
because the cut text cannot be parsed.
"""
MESSAGE_CHARACTERS = 300
"""The number of characters of a message that are reported."""


def message_in(data: bytes) -> str:
    """Return the message in an error file as one line; "" if the file has none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    # The file has torchrun's own failure, which contains the failure of a process.
    for _ in range(2):
        found = found.get("message") if isinstance(found, dict) else found
    if not isinstance(found, str):
        return ""
    line = " ".join("".join(c if c.isprintable() else " " for c in found).split())
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 3] + "..."
