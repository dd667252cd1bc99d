"""Members with a prepared environment wait here for the other members of their gang.

Nodes report again what they have prepared when they connect to a new head, so nothing of this is
stored.
"""

from __future__ import annotations

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_states import HELD
from phalanx.head.outbox import Outbox
from phalanx.model.ids import GangId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.protocol.bundle_messages import BeginMember, MemberPrepares


class PreparedMembers:
    """The members that are ready to begin, by gang."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._ready: dict[GangId, dict[int, int]] = {}

    def ready(self, message: MemberPrepares) -> None:
        """Note that a node has prepared the environment of an attempt of a member."""
        self._ready.setdefault(message.group, {})[message.index] = message.attempt

    def forget(self, gang: Gang) -> None:
        """Forget a gang that is over."""
        self._ready.pop(gang.gang_id, None)

    def look(self, gang: Gang, job: JobRecord) -> None:
        """Let the prepared members begin, unless other members that have their places must still
        be prepared.
        """
        ready = self._ready.get(gang.gang_id)
        if not ready:
            return
        begins = []
        for index in gang.among(HELD):
            place = gang.members[index]
            member = job.member(place.of_group, place.index)
            is_wanted = member is not None and member.state in (st.PENDING, st.RUNNING)
            if is_wanted and ready.get(index) == place.attempt:
                begins.append(index)
            elif member is not None and member.state == st.PENDING:
                return
        del self._ready[gang.gang_id]
        for index in begins:
            place = gang.members[index]
            self._outbox.order(place.node, BeginMember(gang.gang_id, index, place.attempt))
