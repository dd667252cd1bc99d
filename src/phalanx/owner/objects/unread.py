"""Reports each failure that nobody has read, once. Without a report, the program would seem to
succeed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef
from phalanx.protocol.messages import Value

_REPORT_EVERY_S = 1.0
"""Seconds between two reports, however many failures there are. Failures of one kind share one
text.
"""


class UnreadFailure:
    """A mark on all references of failed work. When the references are gone and none of them was
    read, the failure is reported.
    """

    __slots__ = ("dropped", "failure", "is_read")

    def __init__(self, failure: Value, dropped: deque[Value]) -> None:
        self.failure = failure
        self.dropped = dropped
        self.is_read = False

    def __del__(self) -> None:
        # This may run at any time, while any lock is held, so it only records the failure.
        if not self.is_read:
            self.dropped.append(self.failure)


def mark_read(ref: ObjectRef[object]) -> None:
    """Note that the program, or another process, has seen the failure that is the value of this
    reference.
    """
    hold = ref._hold
    if type(hold) is UnreadFailure:
        hold.is_read = True


class UnreadFailures:
    """The unread failures of one process's work, and the failed attempts that are being retried."""

    def __init__(self, show: Callable[[str], None]) -> None:
        """`show` shows a text to the user."""
        self._show = show
        self._dropped: deque[Value] = deque()
        self._retried: list[tuple[str, bytes]] = []
        self._quiet_until = 0.0

    def watch(self, refs: Iterable[ObjectRef[object]], failure: Value) -> None:
        """Watch all references to the results of failed work."""
        free = [ref for ref in refs if ref._hold is None]
        if free:
            hold = UnreadFailure(failure, self._dropped)
            for ref in free:
                ref._hold = hold

    def retried(self, name: str, error: bytes, retries: int) -> None:
        """Note that an attempt of `name` failed, with this number of retries left (-1 for any
        number).
        """
        left = "any number of" if retries < 0 else str(retries)
        begin = f"{name} raised and is tried again ({left} retries are left): "
        self._retried.append((begin, error))

    def report(self, now: float | None = None) -> None:
        """Report the failures that were collected.

        `now`: seconds of a monotonic clock; None for the last report of a process that ends.
        """
        if not (self._dropped or self._retried) or (now is not None and now < self._quiet_until):
            return
        if now is not None:
            self._quiet_until = now + _REPORT_EVERY_S
        found: list[tuple[str, bytes]] = []
        while self._dropped:
            found.append(("Unhandled error: ", self._dropped.popleft().data))
        found += self._retried
        self._retried = []
        alike: dict[tuple[str, str], list[str]] = {}
        for begin, error in found:
            text = failures.failure_text(error)
            if text is not None:
                kind = (text.partition("(")[0], text.rpartition("\n")[2])
                alike.setdefault(kind, []).append(f"{begin}{text}")
        for texts in alike.values():
            more = f"\n... and {len(texts) - 1} more like it" if len(texts) > 1 else ""
            self._show(texts[0] + more)
