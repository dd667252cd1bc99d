"""Catches internal errors so that each of them affects only one thing, and counts them for display.

The thing may be a gang, a job, a request or a message of a node. If an error occurs for one thing,
the work for all other things continues.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from phalanx.head.clock import Clock
from phalanx.model.rows.cluster import DefectInfo

_SHOWN_CHARS = 300
"""The number of characters of an error's text that are shown. The text is cut because users may
control a part of it.
"""


class InternalErrors:
    """The caught internal errors, counted by kind, with the text of the last error of each kind."""

    def __init__(
        self, clock: Clock, show: Callable[[Exception], None], note: Callable[..., None]
    ) -> None:
        """`show` writes an error to the head's log. `note` notes an event (`EventLog.note`) for the
        first, tenth, hundredth … error of a kind, because some errors repeat with every tick.
        """
        self._clock = clock
        self._show = show
        self._note = note
        self.rows: dict[str, DefectInfo] = {}
        """The caught errors, by kind. `StatusInfo` describes the rows."""

    def add(self, kind: str, error: Exception, what: str = "") -> None:
        """Add a caught error. `what` names, for display, the thing that the error concerns."""
        before = self.rows.get(kind)
        text = f"{what}: {describe(error)}" if what else describe(error)
        self.rows[kind] = DefectInfo(
            count=1 if before is None else before.count + 1,
            last=text[:_SHOWN_CHARS],
            at=self._clock.wall(),
        )
        if str(self.rows[kind].count).strip("0") == "1":
            count = self.rows[kind].count
            self._note("defect", name=kind, why=f"{text} ({count} by now)" if count > 1 else text)
        self._show(error)

    def clock_stepped(self, step_s: float) -> None:
        """Shift the times of the last errors after the clock was stepped by this many seconds."""
        for kind, row in self.rows.items():
            self.rows[kind] = msgspec.structs.replace(row, at=row.at + step_s)

    def in_request(self, error: Exception, name: str) -> None:
        """Count an unexpected error of a request's handler. The client has already received an
        answer.
        """
        self.add("request", error, name)

    def kept_apart(self, kind: str, what: str = "") -> KeptApart:
        """Return a context that catches and counts an error, so that the code after the context
        continues.
        """
        return KeptApart(self, kind, what)


class KeptApart:
    """The context that `InternalErrors.kept_apart` returns. The context is a class because a
    generator would be slower, and every change of a job enters such a context.
    """

    __slots__ = ("_internal_errors", "_kind", "_what")

    def __init__(self, internal_errors: InternalErrors, kind: str, what: str) -> None:
        self._internal_errors = internal_errors
        self._kind = kind
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._internal_errors.add(self._kind, error, self._what)
        return True


def describe(error: Exception) -> str:
    """Return an error in one line, as its class and its text."""
    return f"{type(error).__name__}: {error}"[:_SHOWN_CHARS]
