"""Who stands before whom of those that wait in a queue, found without a look at each."""

from __future__ import annotations

from bisect import bisect_left, insort

from phalanx.head.gangs.gang import Gang

_Line = list[Gang]
"""Those of one priority, the one that came first first."""


class QueuePositions:
    """A line for each priority of each queue. What it goes by stays while a gang is in it."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[int, _Line]] = {}

    def enter(self, gang: Gang) -> None:
        """It waits from now on."""
        line = self._lines.setdefault(gang.queue, {}).setdefault(gang.priority, [])
        if not line or came(line[-1]) < came(gang):
            line.append(gang)
        else:
            insort(line, gang, key=came)

    def leave(self, gang: Gang) -> None:
        """It waits no longer."""
        lines = self._lines[gang.queue]
        line = lines[gang.priority]
        del line[bisect_left(line, came(gang), key=came)]
        if not line:
            del lines[gang.priority]

    def of_higher_priority(self, gang: Gang) -> int:
        """How many of its queue have a higher one."""
        lines = self._lines.get(gang.queue, {})
        return sum(len(line) for priority, line in lines.items() if priority > gang.priority)

    def earlier(self, gang: Gang, *, any_priority: bool) -> int:
        """How many of its priority, or of any, came to its queue before it."""
        lines = self._lines.get(gang.queue, {})
        looked_at = lines.values() if any_priority else [lines.get(gang.priority, [])]
        return sum(bisect_left(line, came(gang), key=came) for line in looked_at)


def came(gang: Gang) -> tuple[float, str]:
    """What gangs of one priority stand in line by."""
    return gang.created, gang.uid
