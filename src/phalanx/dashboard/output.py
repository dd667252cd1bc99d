"""What a member has printed, as plain text for a page: a part at a time, in bounded memory."""

from __future__ import annotations

import re
from typing import Any

from phalanx.protocol.requests.jobs import LogPart

TAIL = 128 * 1024
"""So much of the end is shown at first."""
PART = 256 * 1024
"""And so much is sent at once."""
_STEERING = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_]|[ -/]+[0-~])"
)
"""Sequences that steer a terminal: control sequences, operating system commands, and the rest."""
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)(?=[^\n])")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain_text(data: bytes) -> str:
    """Output without what steers a terminal or turns the direction of text; of a line that was
    written over again and again, as progress bars do, the last state."""
    text = _STEERING.sub(b"", data).decode("utf-8", "replace").replace("\r\n", "\n")
    return _UNSEEN.sub("", _OVERWRITTEN.sub("", text))


def first_offset(size: int) -> int:
    """Where to begin in an output of so many bytes."""
    return max(size - TAIL, 0)


def part_data(part: LogPart, offset: int) -> dict[str, Any]:
    """A part as the page takes it: its text, where the next one begins, and whether there is more
    now. What ends within a character or a sequence goes on there the next time."""
    if part.size < 0:
        return {"text": "", "next": offset, "size": -1, "skipped": 0, "more": False}
    begun = offset + part.skipped
    data = part.data[:PART]
    if len(part.data) > PART or begun + len(data) < part.size:
        data = data[: data.rfind(b"\n") + 1] or data
    end = begun + len(data)
    return {
        "text": plain_text(data),
        "next": end,
        "size": part.size,
        "skipped": part.skipped,
        "more": end < part.size,
    }
