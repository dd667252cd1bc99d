"""The audit log: every change and every refusal, with the asker, the asker's address, and the
result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from phalanx.model.principals import Principal
from phalanx.model.rights import Verb
from phalanx.model.rows.rights import AuditInfo

DONE, FAILED, DENIED = "done", "failed", "denied"
"""The possible results of a request."""
CHANGING = frozenset({Verb.SUBMIT, Verb.CHANGE, Verb.RAISE, Verb.OPERATE, Verb.ADMINISTER})
"""The verbs whose requests are recorded even when they are allowed."""
MAX_TEXT = 500
"""The largest number of characters of a text that are kept. The text is cut because askers control
a part of it.
"""
MAX_LATEST = 10_000
"""The largest number of records that one query returns."""


class AuditJournal(Protocol):
    """Keeps the records of the audit log."""

    def add(self, record: AuditInfo) -> None: ...

    def latest(self, count: int, is_meant: Callable[[AuditInfo], bool]) -> list[AuditInfo]:
        """Return the last `count` records that satisfy `is_meant`, oldest first."""
        ...


class RecentAudit:
    """Keeps the last records in memory, for a head without a file for its audit log."""

    def __init__(self, most: int = 1_000) -> None:
        self._records: deque[AuditInfo] = deque(maxlen=most)

    def add(self, record: AuditInfo) -> None:
        """Append a record."""
        self._records.append(record)

    def latest(self, count: int, is_meant: Callable[[AuditInfo], bool]) -> list[AuditInfo]:
        """Return the last `count` records that satisfy `is_meant`, oldest first."""
        return [one for one in self._records if is_meant(one)][-count:]


def record_of(
    principal: Principal, origin: str, verb: Verb, what: str, result: str, why: str, at: float
) -> AuditInfo:
    """Return a record; texts that are too long are cut."""
    return AuditInfo(
        at=at,
        principal=str(principal)[:MAX_TEXT],
        user=principal.user[:MAX_TEXT],
        origin=origin[:MAX_TEXT],
        verb=verb.value,
        what=what[:MAX_TEXT],
        result=result,
        why=why[:MAX_TEXT],
    )


def described(request: Any, objects: str) -> str:
    """Return a description of a request: its name, the names of its objects and, if it contains a
    command, the command.
    """
    command = getattr(request, "command", "")
    words = (type(request).__name__, str(command) if command else "", objects)
    return " ".join(word for word in words if word)
