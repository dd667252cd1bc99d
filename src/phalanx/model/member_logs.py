"""Facts about the logs of members that several rooms share."""

from __future__ import annotations

from typing import Final

MAY_BE_LOST: Final = "output may be lost"
"""The text that the reason of a member contains if its output may be incomplete."""


def preparing_log(log: str) -> str:
    """Return the file with the log of the preparation, which lies beside the member's log."""
    return f"{log.removesuffix('.log')}.preparing.log"
