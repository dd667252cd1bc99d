"""The head gets every type of request with random values: it answers each, and other people's work
continues.
"""

from __future__ import annotations

import random
from typing import Any

from tests.fuzz.requests import KNOWN, SPECIAL
from tests.fuzz.running import try_out
from tests.fuzz.values import Maker
from tests.fuzz.world import PeopleWorld, is_meant

from phalanx.model.jobs import states
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.protocol.requests.request import Request, Role


def handled(world: PeopleWorld) -> list[type[Request[Any]]]:
    """The requests that a head answers."""
    control = world.head
    found = {**control.handlers.types, **control.gang_scheduler.handlers.types}
    return sorted(found, key=lambda one: one.kind)


OF_CONTROL = handled(PeopleWorld())
Step = tuple[Request[Any], Role] | str
"""A request and the role of the asker, or the name of another event."""
EVENTS = ["a minute", "a day", "members succeed", "members fail", "the head restarts"]


def draw(rng: random.Random) -> list[Step]:
    maker = Maker(rng, KNOWN, SPECIAL)
    several = len(OF_CONTROL) // 2
    kinds: list[type[Request[Any]] | str] = [
        *OF_CONTROL,
        *[ApplyManifests] * several,
        *EVENTS * (several // len(EVENTS)),
    ]
    steps: list[Step] = []
    for kind in rng.choices(kinds, k=rng.randint(1, 12)):
        if isinstance(kind, str):
            steps.append(kind)
        else:
            roles = list(Role) if maker.is_wild() else list(kind.asked_by)
            steps.append((maker.struct(kind), rng.choice(roles)))
    return steps


def test_requests_harm_nobody_else():
    try_out(draw, harm_nobody_else, 150)


def harm_nobody_else(steps: list[Step]) -> None:
    world = PeopleWorld()
    first = world.submit_bystander()
    world.rounds()
    assert world.state(first) == states.RUNNING
    for step in steps:
        if isinstance(step, str):
            world.happens(step)
            continue
        answer = world.request(*step)
        if answer.error is not None and not is_meant(answer.error):
            raise AssertionError(f"{step!r:.500}") from answer.error
        world.rounds(1)
    world.forget_reservations()
    second = world.submit_bystander()
    world.rounds()
    assert world.state(first) == world.state(second) == states.RUNNING
    if world.internal_errors:
        raise AssertionError("defects") from world.internal_errors[0]
    world.restart()
    world.rounds()
    world.forget_reservations()
    third = world.submit_bystander()
    world.end_members(0, of=first)
    world.rounds()
    assert world.state(first) == states.COMPLETED
    assert world.state(second) == world.state(third) == states.RUNNING
    if world.internal_errors:
        raise AssertionError("defects after a restart") from world.internal_errors[0]
