"""Rows of calls that every system of actors can do: one by one, and a thousand together."""

from __future__ import annotations

from collections.abc import Callable

from phalanx_benchmarks.actor_systems.actor_system import ActorSystem
from phalanx_benchmarks.measure import Effort, rates
from phalanx_benchmarks.row import ACTORS, Row

TEN, THOUSAND = 10, 1000
MakeActor = Callable[[], ActorSystem]


def _one_by_one(make: MakeActor, effort: Effort) -> list[float]:
    actor = make()
    try:
        return rates(lambda: actor.one_by_one(TEN), per_call=TEN, effort=effort)
    finally:
        actor.close()


def _together(make: MakeActor, effort: Effort) -> list[float]:
    actor = make()
    try:
        return rates(lambda: actor.together(THOUSAND), per_call=THOUSAND, effort=effort)
    finally:
        actor.close()


ROWS = (
    Row(name="actor: calls one by one", unit="/s", sample=_one_by_one, group=ACTORS, session=False),
    Row(
        name="actor: 1,000 calls, then all results",
        unit="/s",
        sample=_together,
        group=ACTORS,
        session=False,
    ),
)
