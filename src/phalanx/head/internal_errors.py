"""Errors of ours: each harms the one thing that it was about, and all are counted for people.

A gang, a job, a request, a message of a node: what raises is set apart, the others go on.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.head.clock import Clock
from phalanx.model.rows.cluster import DefectInfo

_SHOWN_CHARS = 300
"""Of an error's text: users may have a part in it."""


class InternalErrors:
    """What was caught where, by kind: of the last one, its text."""

    def __init__(
        self, clock: Clock, show: Callable[[Exception], None], note: Callable[..., None]
    ) -> None:
        """`show` puts an error into the head's log. `note` notes an event (`EventLog.note`): the
        first of a kind, the tenth, the hundredth ..., as some come with every tick."""
        self._clock = clock
        self._show = show
        self._note = note
        self.rows: dict[str, DefectInfo] = {}
        """By kind, see `StatusInfo`."""

    def add(self, kind: str, error: Exception, what: str = "") -> None:
        """An error was caught. `what` it was about, for people."""
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

    def in_request(self, error: Exception, name: str) -> None:
        """A request's handler raised what is meant for nobody; who asked has been answered."""
        self.add("request", error, name)

    def kept_apart(self, kind: str, what: str = "") -> KeptApart:
        """What is done inside may fail without harm to what comes after it."""
        return KeptApart(self, kind, what)


class KeptApart:
    """See `InternalErrors.kept_apart`: entered at every change of a job, so not by a generator."""

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
    """An error in a line: its class and its text."""
    return f"{type(error).__name__}: {error}"[:_SHOWN_CHARS]
