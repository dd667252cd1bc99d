"""Finds positions of gangs that wait in a queue, without looking at every gang."""

from __future__ import annotations

from bisect import bisect_left, insort

from phalanx.head.gangs.gang import Gang

_Line = list[Gang]
"""The waiting gangs of one queue and priority, by time of arrival."""


class QueuePositions:
    """The waiting gangs of each queue, by priority. A gang's sort key must not change while the
    gang waits.
    """

    def __init__(self) -> None:
        self._lines: dict[str, dict[int, _Line]] = {}

    def enter(self, gang: Gang) -> None:
        """Add a gang that waits from now on."""
        line = self._lines.setdefault(gang.queue, {}).setdefault(gang.priority, [])
        if not line or came(line[-1]) < came(gang):
            line.append(gang)
        else:
            insort(line, gang, key=came)

    def leave(self, gang: Gang) -> None:
        """Remove a gang that no longer waits."""
        lines = self._lines[gang.queue]
        line = lines[gang.priority]
        del line[bisect_left(line, came(gang), key=came)]
        if not line:
            del lines[gang.priority]

    def of_higher_priority(self, gang: Gang) -> int:
        """Return how many waiting gangs of the gang's queue have a higher priority."""
        lines = self._lines.get(gang.queue, {})
        return sum(len(line) for priority, line in lines.items() if priority > gang.priority)

    def earlier(self, gang: Gang, *, any_priority: bool) -> int:
        """Return how many waiting gangs came to the queue before this gang. Only gangs of its
        priority count or, with `any_priority`, gangs of any priority.
        """
        lines = self._lines.get(gang.queue, {})
        looked_at = lines.values() if any_priority else [lines.get(gang.priority, [])]
        return sum(bisect_left(line, came(gang), key=came) for line in looked_at)


def came(gang: Gang) -> tuple[float, str]:
    """Return the sort key that orders gangs of one priority by time of arrival."""
    return gang.created, gang.uid
