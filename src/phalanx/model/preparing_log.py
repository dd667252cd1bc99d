"""The log of the preparation of a member's environment."""

from __future__ import annotations


def preparing_log(log: str) -> str:
    """Return the file with the log of the preparation, which lies beside the member's log."""
    return f"{log.removesuffix('.log')}.preparing.log"
