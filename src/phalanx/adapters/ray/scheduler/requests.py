"""The requests of programs to the scheduler. This module answers some of them with Ray's help, and
the head all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from phalanx.adapters.ray.scheduler.batch_requests import BatchRequests
from phalanx.adapters.ray.scheduler.ray_groups import RayGroups
from phalanx.adapters.ray.scheduler.reservation import Reservations
from phalanx.adapters.ray.scheduler.stages import Stages
from phalanx.head.gangs.member_states import HELD, SHOWN
from phalanx.model.principals import Principal
from phalanx.model.rows.explanation import Explanation, Reason
from phalanx.protocol.asking import Reply
from phalanx.protocol.cluster_messages import ForwardedAsk, ForwardedReply
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.ray import GangPlace, GetMemberState, ListGangPlaces, ListStages
from phalanx.protocol.requests.request import Asker, RequestHandlers, Role
from phalanx.protocol.wire_errors import WireError

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler

OnReply = Callable[[Reply], None]


class SchedulerRequests:
    """Answers the requests of programs. New requests wait until the cluster's nodes are known."""

    def __init__(
        self,
        ask: Callable[[ForwardedAsk], None],
        gangs: Callable[[], GangScheduler],
        batch_requests: BatchRequests,
        reservations: Reservations,
        groups: RayGroups,
        stages: Stages,
        reserve_s: float,
        principal: Principal,
    ) -> None:
        """All programs ask as `principal`, because Ray has no users. `ask`: a function that passes
        a request to the head, which calls `replied` now or later. `gangs`: a function that returns
        the scheduler of gangs, which it makes on first use.
        """
        self._ask = ask
        self._gangs = gangs
        self._batch_requests = batch_requests
        self._reservations = reservations
        self._groups = groups
        self._reserve_s = reserve_s
        self._principal = principal
        self._tokens = itertools.count(1)
        self._replies: dict[int, OnReply] = {}
        self.handlers = RequestHandlers(
            "the scheduler",
            *self._batch_requests.entries(),
            Explain.handled_by(self._explain),
            ListGangPlaces.handled_by(self._places),
            GetMemberState.handled_by(self._member_state),
            ListStages.handled_by(lambda _, request: stages.of(request.gangs)),
        )
        self._waiting: list[Callable[[], None]] | None = []

    @property
    def are_waiting(self) -> bool:
        """Whether requests still wait until the cluster's nodes are known."""
        return self._waiting is not None

    def begin(self) -> None:
        """Answer the waiting requests, because the nodes are now known."""
        waiting, self._waiting = self._waiting or [], None
        for ask_again in waiting:
            ask_again()

    def ask(self, origin: bytes, kind: int, body: bytes, replied: OnReply) -> None:
        """Answer a request, now or later. `origin`: the process that asks; empty for a visitor."""
        if self._waiting is not None:
            self._waiting.append(lambda: self.ask(origin, kind, body, replied))
            return
        raw = msgspec.Raw(body)
        if kind in self.handlers:

            def send(result: msgspec.Raw, error: WireError | None) -> None:
                replied(Reply(0, result, error))

            role = Role.PROCESS if origin else Role.VISITOR
            self.handlers.answer(kind, raw, Asker(role, origin, send))
            return
        token = next(self._tokens)
        self._replies[token] = replied
        self._ask(ForwardedAsk(token, origin, kind, raw, principal=self._principal))

    def tick(self, now: float) -> None:
        self._batch_requests.tick(now)

    def replied(self, reply: ForwardedReply) -> None:
        """Pass on a reply of the head."""
        replied = self._replies.pop(reply.token, None)
        if replied is not None:
            replied(Reply(0, reply.result, reply.error))

    # ---- requests answered here --------------------------------------------------------------

    def _explain(self, asker: Asker[Explanation], request: Explain) -> Explanation:
        """Explain why a gang waits. If Ray has refused the planned places, that reason is added,
        because the head does not know it.
        """
        explanations = self._gangs().explanations
        answer = explanations.explain(request.name)
        gang = explanations.find(request.name)
        count = 0 if gang is None else self._reservations.refusals(gang.gang_id)
        if not count:
            return answer
        reasons = [refusal(count, self._reserve_s), *answer.reasons]
        return msgspec.structs.replace(answer, reasons=reasons)

    def _member_state(self, asker: Asker[str], request: GetMemberState) -> str:
        gang = self._gangs().registry.gangs.get(request.group)
        return "" if gang is None else SHOWN[gang.members[request.index].state]

    def _places(
        self, asker: Asker[dict[int, GangPlace]], request: ListGangPlaces
    ) -> dict[int, GangPlace]:
        scheduler = self._gangs()
        gang = scheduler.registry.gangs.get(request.group)
        if gang is None:
            return {}
        views = scheduler.member_views(gang, gang.among(HELD))
        places = sorted(self._reservations.places(request.group).items())
        return {
            index: GangPlace(
                self._groups.id_of((request.group, attempt)),
                at,
                gang.members[index].node,
                views[index],
                SHOWN[gang.members[index].state],
            )
            for index, (attempt, at) in places
            if index in views
        }


def refusal(count: int, reserve_s: float) -> Reason:
    """Return the reason why a gang waits after Ray has refused its places."""
    return Reason(
        reason="reservation-refused",
        count=count,
        detail={"waited_s": reserve_s},
        sentence=(
            f"Ray did not reserve the gang's places within {reserve_s:g} s ({count} times so far), "
            "although its nodes seemed to have room"
        ),
        change=(
            "look for tasks, actors or placement groups outside of queues that wait for the same "
            "resources; dedicated nodes have none"
        ),
    )
