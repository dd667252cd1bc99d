"""Records the placement, eviction and release of members as events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_lifecycle import Arrived, Freed, Lost, Move
from phalanx.head.gangs.member_states import ENDING, HAVING, HELD, LEAVING
from phalanx.observe.cluster_events import Event
from phalanx.observe.gang_events import MembersEvicted, MembersFreed, MembersPlaced

NODE_DIGITS = 12
"""The number of digits of a node's id that events show."""


class Recorder:
    """Passes events to `record`, with the wall-clock time from `wall`. This class follows the life
    cycle of members. `minimum_of` returns how many members of a gang must have places now; members
    that have ended are not counted.
    """

    def __init__(
        self,
        record: Callable[[Event], None],
        wall: Callable[[], float],
        minimum_of: Callable[[Gang], int],
    ) -> None:
        self._record = record
        self._wall = wall
        self._minimum_of = minimum_of

    def members_moved(self, gang: Gang, move: Move) -> None:
        """Record that members were placed, lost or freed."""
        if isinstance(move.event, Arrived):
            self._placed(gang, [i for i in move.indexes if gang.members[i].state == HELD])
        elif isinstance(move.event, Lost):
            self._freed(gang, _from(move, HAVING), "lost")
        elif isinstance(move.event, Freed):
            lost = "lost" if move.event.is_lost else ""
            for state, why in ((LEAVING, "evicted"), (ENDING, "ended")):
                self._freed(gang, _from(move, {state}), lost or why)

    def evicted(self, gang: Gang, members: Iterable[int], action: str) -> None:
        """Record that these members are evicted."""
        event = MembersEvicted(
            at=self._wall(),
            node="",
            gang=gang.uid,
            queue=gang.queue,
            members=list(members),
            action=action,
        )
        self._record(event)

    def _placed(self, gang: Gang, members: list[int]) -> None:
        if members:
            placed = MembersPlaced(
                at=self._wall(),
                node="",
                gang=gang.uid,
                queue=gang.queue,
                priority=gang.priority,
                places=[
                    (index, gang.members[index].node[:NODE_DIGITS], gang.members[index].devices)
                    for index in members
                ],
                ports=gang.ports,
                held=gang.count(HELD),
                min_members=self._minimum_of(gang),
            )
            self._record(placed)

    def _freed(self, gang: Gang, members: list[int], why: str) -> None:
        if members:
            freed = MembersFreed(
                at=self._wall(),
                node="",
                gang=gang.uid,
                queue=gang.queue,
                members=members,
                why=why,
            )
            self._record(freed)


def _from(move: Move, states: Collection[str]) -> list[int]:
    """Return the members that were in one of these states before the move."""
    before = zip(move.indexes, move.before, strict=True)
    return [index for index, state in before if state in states]
