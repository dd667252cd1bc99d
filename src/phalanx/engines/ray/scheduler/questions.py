"""What programs ask of the scheduler: passed to the control store, or answered from Ray's side."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from phalanx.engines.ray.scheduler.control import CLIENTS, RayControl
from phalanx.engines.ray.scheduler.gates import Gates
from phalanx.engines.ray.scheduler.ray_groups import RayGroups
from phalanx.engines.ray.scheduler.reservation import Reservations
from phalanx.engines.ray.scheduler.stages import Stages
from phalanx.head.gangs.member_states import HELD, SHOWN
from phalanx.protocol.cluster_messages import Answer, Ask

Answered = Callable[[tuple[Any, tuple[str, str] | None]], None]
"""Takes a result, or the class name and text of an error."""


class Questions:
    """Those under way. They wait while nothing is known of the cluster yet."""

    def __init__(
        self,
        control: RayControl,
        reservations: Reservations,
        groups: RayGroups,
        stages: Stages,
        reserve_s: float,
    ) -> None:
        self._control = control
        self._reservations = reservations
        self._groups = groups
        self._stages = stages
        self._reserve_s = reserve_s
        self._gates = Gates(control)
        self._tokens = itertools.count(1)
        self._answers: dict[int, Answered] = {}
        self._waiting: list[Callable[[], None]] | None = []

    @property
    def are_waiting(self) -> bool:
        """Whether they wait for the cluster's nodes."""
        return self._waiting is not None

    def begin(self) -> None:
        """The nodes are known: answer."""
        waiting, self._waiting = self._waiting or [], None
        for question in waiting:
            question()

    def ask(self, origin: bytes, method: str, args: dict[str, Any], answered: Answered) -> None:
        """Answer a question of process `origin`, now or later."""
        if self._waiting is not None:
            self._waiting.append(lambda: self.ask(origin, method, args, answered))
            return
        try:
            if method == "places":
                answered((self._places(**args), None))
                return
            if method == "member_state":
                answered((self._member_state(**args), None))
                return
            if method == "stages":
                answered((self._stages.of(**args), None))
                return
            if method.startswith("gate."):
                self._gates.answer(origin, method, args, answered)
                return
            if method == "batch.explain":
                answered = self._with_refusals(args["name"], answered)
        except (TypeError, KeyError) as error:
            answered((None, ("TypeError", f"{method}: {error}")))
            return
        token = next(self._tokens)
        self._answers[token] = answered
        self._control.requests.answer(CLIENTS, Ask(token, origin, method, args))

    def tick(self, now: float) -> None:
        """Time has passed."""
        self._gates.tick(now)

    def answered(self, answer: Answer) -> None:
        """The control store has answered."""
        waiting = self._answers.pop(answer.token, None)
        if waiting is not None:
            waiting((answer.result, answer.error))

    def _with_refusals(self, name: str, answered: Answered) -> Answered:
        """An explanation says as well what only Ray knows: that it has refused what was planned."""
        gang = self._control.batch.explanations.find(name)
        count = 0 if gang is None else self._reservations.refusals(gang.group)
        if not count:
            return answered

        def more(answer: tuple[Any, tuple[str, str] | None]) -> None:
            if answer[0] is not None:
                reason = refusal(count, self._reserve_s)
                answer[0]["reasons"] = [reason, *answer[0]["reasons"]]
            answered(answer)

        return more

    def _member_state(self, group: bytes, index: int) -> str:
        """Of a member of a gang, as listings call it; empty when there is no such gang."""
        gang = self._control.batch.registry.gangs.get(group)
        return "" if gang is None else SHOWN[gang.members[index].state]

    def _places(self, group: bytes) -> dict[int, dict[str, Any]]:
        """Where each member of a gang is that has its place: Ray's placement group and the bundle
        in it (-1: it asks for nothing), its node, what it is told of its gang, and its state."""
        batch = self._control.batch
        gang = batch.registry.gangs.get(group)
        if gang is None:
            return {}
        views = batch.member_views(gang, gang.among(HELD))
        return {
            index: {
                "placement_group": self._groups.id_of((group, attempt)),
                "bundle": at,
                "node": gang.members[index].node,
                "view": views[index],
                "state": SHOWN[gang.members[index].state],
            }
            for index, (attempt, at) in sorted(self._reservations.places(group).items())
            if index in views
        }


def refusal(count: int, reserve_s: float) -> dict[str, Any]:
    """Why a gang waits whose places Ray would not give, in the form of `explain`'s reasons."""
    return {
        "reason": "reservation-refused",
        "count": count,
        "detail": {"waited_s": reserve_s},
        "sentence": (
            f"Ray did not reserve its places within {reserve_s:g} s, {count} times by now, "
            "although its nodes seemed to have room"
        ),
        "change": (
            "see which tasks, actors or placement groups outside of queues wait for the same "
            "resources; on dedicated nodes there are none"
        ),
    }
