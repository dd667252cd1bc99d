"""What becomes of members, written down as events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from phalanx.head.gangs.gang import HELD, Gang
from phalanx.observe.cluster_events import Event
from phalanx.observe.gang_events import MembersEvicted, MembersFreed, MembersPlaced

NODE_DIGITS = 12
"""Events name nodes by so many digits of their ids."""


class Recorder:
    """Records through `record`, with the time of day of `wall`."""

    def __init__(self, record: Callable[[Event], None], wall: Callable[[], float]) -> None:
        self._record = record
        self._wall = wall

    def placed(self, gang: Gang, least: int, nodes: Mapping[int, str]) -> None:
        """These members have these nodes; the gang needs `least` that hold one."""
        self._record(
            MembersPlaced(
                at=self._wall(),
                node="",
                gang=gang.uid,
                queue=gang.queue,
                priority=gang.priority,
                places=[
                    (index, node[:NODE_DIGITS], gang.devices.get(index, {}))
                    for index, node in nodes.items()
                ],
                ports=gang.ports,
                held=len(gang.among(HELD)),
                least=least,
            )
        )

    def evicted(self, gang: Gang, members: Iterable[int], action: str) -> None:
        """These members are to go."""
        told = MembersEvicted(
            at=self._wall(),
            node="",
            gang=gang.uid,
            queue=gang.queue,
            members=list(members),
            action=action,
        )
        self._record(told)

    def freed(self, gang: Gang, members: list[int], why: str) -> None:
        """These hold nothing any more; nothing is told of nobody."""
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
