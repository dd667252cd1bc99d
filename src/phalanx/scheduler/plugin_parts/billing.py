"""The price of work for its user, and how fast past usage is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from phalanx.scheduler.cycle.accepted import DURATION, NUMBER, Accepted
from phalanx.scheduler.cycle.arguments import Arguments, number, seconds, table
from phalanx.scheduler.cycle.config import Configuration

HALF_LIFE_S = 7 * 86400.0
PENALTY_S = 300.0
ACCEPTS: Final[Accepted] = {
    "halfLife": DURATION,
    "penalty": DURATION,
    "billing": {"*": NUMBER},
}


class Terms(NamedTuple):
    """The terms by which usage is billed.

    After `half_life_s` seconds, half of the usage is forgotten. Work that has started is charged
    for at least `penalty_s` seconds. `billing`: the weight of one unit of each resource, such as a
    core, a GPU or a byte.
    """

    half_life_s: float
    penalty_s: float
    billing: Mapping[str, float]

    def rate(self, amounts: Iterable[tuple[str, float]]) -> float:
        """Return the billing units per second of work with these amounts: the largest product of
        weight and amount.

        Slurm calls this rule MAX_TRES. The rate does not depend on the node.
        """
        billing = self.billing
        weighed = (billing[name] * amount for name, amount in amounts if name in billing)
        return max(weighed, default=0.0)


def terms_of(arguments: Arguments) -> Terms:
    """Return the terms in the arguments `halfLife` (168h), `penalty` (5m) and `billing` ({cpu:
    1}).
    """
    given = table(arguments, "billing")
    return Terms(
        half_life_s=seconds(arguments.get("halfLife")) or HALF_LIFE_S,
        penalty_s=seconds(arguments.get("penalty")) or PENALTY_S,
        billing={name: max(number(given, name, 0.0), 0.0) for name in given} or {"cpu": 1.0},
    )


def terms_in(config: Configuration) -> Terms:
    """Return the terms of the first plugin that reads users' usage; the defaults if no plugin
    does.
    """
    for tier in config.tiers:
        for option in tier:
            if option.name in ("fair-tree", "multifactor"):
                return terms_of(option.arguments)
    return terms_of({})
