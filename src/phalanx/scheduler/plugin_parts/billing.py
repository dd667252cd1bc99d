"""What work costs its user, and how long that is remembered."""

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
    """After `half_life_s` seconds half of the use is forgotten; what begins counts for `penalty_s`
    at least; `billing` weighs one unit of each resource as it is counted: a core, a GPU, a byte."""

    half_life_s: float
    penalty_s: float
    billing: Mapping[str, float]

    def rate(self, amounts: Iterable[tuple[str, float]]) -> float:
        """Billing units of work that asks for these amounts: the largest of weight times amount,
        after Slurm's MAX_TRES. Where it is placed changes nothing."""
        billing = self.billing
        weighed = (billing[name] * amount for name, amount in amounts if name in billing)
        return max(weighed, default=0.0)


def terms_of(arguments: Arguments) -> Terms:
    """`halfLife` 168h; `penalty` 5m; `billing` {cpu: 1}."""
    given = table(arguments, "billing")
    return Terms(
        half_life_s=seconds(arguments.get("halfLife")) or HALF_LIFE_S,
        penalty_s=seconds(arguments.get("penalty")) or PENALTY_S,
        billing={name: max(number(given, name, 0.0), 0.0) for name in given} or {"cpu": 1.0},
    )


def terms_in(config: Configuration) -> Terms:
    """Those of the first plugin that looks at what users have used; without one the usual ones."""
    for tier in config.tiers:
        for option in tier:
            if option.name in ("fair-tree", "multifactor"):
                return terms_of(option.arguments)
    return terms_of({})
