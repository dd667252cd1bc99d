"""Records as events what happens to the places of gangs' members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from phalanx.head.events.event_log import EventLog
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_lifecycle import Arrived, Lost, Move
from phalanx.head.gangs.member_states import HAVING, HELD
from phalanx.model.jobs.records import JobRecord

MAX_PLACES = 256
"""The largest number of nodes that an event names."""
PREEMPTING: Final = frozenset({"preempt", "gangpreempt"})
RECLAIMING: Final = frozenset({"reclaim", "gangreclaim"})


class GangRecorder:
    """Notes events about the places of members, as a listener of their life cycle. Placements of
    array tasks are not noted: array tasks are numerous, and their array shows how many of them run.
    """

    def __init__(
        self,
        event_log: EventLog,
        host_of: Callable[[str], str],
        job_of: Callable[[str], JobRecord | None],
    ) -> None:
        """`host_of`: returns the host name of a node by its id. `job_of`: returns a job by
        its uid.
        """
        self._event_log = event_log
        self._host_of = host_of
        self._job_of = job_of

    def members_moved(self, gang: Gang, move: Move) -> None:
        """Note members that were placed or lost."""
        if isinstance(move.event, Arrived):
            there = [i for i in move.indexes if gang.members[i].state == HELD]
            if there and not self._is_array_task(gang):
                self._note("placed", gang, there)
        elif isinstance(move.event, Lost):
            before = zip(move.indexes, move.before, move.nodes, strict=True)
            lost = {i: node for i, state, node in before if state in HAVING}
            if lost:
                self._note("lost", gang, lost, [*lost.values()])

    def evicted(self, gang: Gang, members: list[int], action: str, claimant: str) -> None:
        """Note that an action evicts these members to make room for the gang `claimant` ("" for no
        gang).
        """
        kind = "evicted"
        if action in PREEMPTING:
            kind = "preempted"
        elif action in RECLAIMING:
            kind = "reclaimed"
        why = "" if kind != "evicted" else action
        self._note(kind, gang, members, by=claimant, why=why)

    def _is_array_task(self, gang: Gang) -> bool:
        job = self._job_of(gang.job) if gang.job else None
        return job is not None and job.spec.element is not None

    def _note(
        self,
        kind: str,
        gang: Gang,
        members: Iterable[int],
        nodes: Iterable[str] | None = None,
        *,
        by: str = "",
        why: str = "",
    ) -> None:
        members = list(members)
        counts: dict[str, int] = {}
        for node in (gang.members[i].node for i in members) if nodes is None else nodes:
            counts[node] = counts.get(node, 0) + 1
        self._event_log.note(
            kind,
            job=gang.uid,
            queue=gang.queue,
            user=gang.user,
            by=by,
            why=why,
            members=len(members),
            places=tuple(
                (node, self._host_of(node), count)
                for node, count in list(counts.items())[:MAX_PLACES]
            ),
        )
