"""Rows of calls that every system of actors can do: one by one, and a thousand together."""

from __future__ import annotations

from collections.abc import Callable

from phalanx_benchmarks.actor_systems.actor_system import ActorSystem
from phalanx_benchmarks.measure import Effort, rates
from phalanx_benchmarks.row import ACTORS, Row

TEN, THOUSAND = 10, 1000
MakeActor = Callable[[], ActorSystem]


def _row(name: str, work: Callable[[ActorSystem], object], per_call: int) -> Row:
    def sample(make: MakeActor, effort: Effort) -> list[float]:
        actor = make()
        try:
            return rates(lambda: work(actor), per_call=per_call, effort=effort)
        finally:
            actor.close()

    return Row(name=name, unit="/s", sample=sample, group=ACTORS, session=False)


ROWS = (
    _row("actor: calls one by one", lambda actor: actor.one_by_one(TEN), TEN),
    _row("actor: 1,000 calls, then all results", lambda actor: actor.together(THOUSAND), THOUSAND),
)
