"""The output of a member as plain text for a page, read in parts and in bounded memory."""

from __future__ import annotations

import re
from typing import Any

from phalanx.protocol.requests.jobs import LogPart

TAIL = 128 * 1024
"""The number of bytes at the end of an output that a page shows at first."""
PART = 256 * 1024
"""The most bytes of a part."""
_STEERING = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_]|[ -/]+[0-~])"
)
"""The escape sequences of terminals: control sequences, operating system commands and others."""
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)(?=[^\n])")
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain_text(data: bytes) -> str:
    """Return output without escape sequences and characters that change the text's direction.

    A line that was overwritten again and again, such as a progress bar, keeps its last state.
    """
    text = _STEERING.sub(b"", data).decode("utf-8", "replace").replace("\r\n", "\n")
    return _UNSEEN.sub("", _OVERWRITTEN.sub("", text))


def first_offset(size: int) -> int:
    """Return the offset at which a page begins to show an output of `size` bytes."""
    return max(size - TAIL, 0)


def part_data(part: LogPart, offset: int) -> dict[str, Any]:
    """Return a part as data for the page: its text, the next offset, and whether more output
    follows.

    An unfinished character or sequence at the end is left for the next part.
    """
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
