"""The plugin half-life: queues that recently used much of the cluster come later.

Modelled on Slurm's and KAI's fair share by past usage. A queue's rank is (kValue * past + now) /
weight. `past` is the queue's decayed usage, and `now` the dominant share that the queue holds.
`kValue` is the plugin's argument: how much past usage counts, compared with current usage. The
queue with the smallest rank comes first. The process that keeps the usage ledger computes `past`
with the function `decayed`.
"""

from __future__ import annotations

from typing import ClassVar

from phalanx.scheduler.cycle.accepted import NUMBER, Accepted
from phalanx.scheduler.cycle.accounts import queue_accounts
from phalanx.scheduler.cycle.arguments import Arguments, number
from phalanx.scheduler.cycle.rows import Change
from phalanx.scheduler.cycle.session import Session


def decayed(past: float, held: float, elapsed_s: float, half_life_s: float) -> float:
    """Return the past usage `past` as it is `elapsed_s` seconds later. `held`: the share (0 to 1)
    of the cluster that was in use during that time.

    With constant use, past usage approaches the share in use. Raises ValueError for a half-life
    that is not positive.
    """
    if half_life_s <= 0:
        raise ValueError(f"a half-life must be a positive number of seconds, not {half_life_s}")
    kept: float = 0.5 ** (max(elapsed_s, 0.0) / half_life_s)
    return past * kept + held * (1.0 - kept)


class HalfLife:
    """The plugin half-life. Argument: `kValue` (1), the factor of past usage; current usage has the
    factor 1. Queues declare `past_usage`.
    """

    name = "half-life"
    accepts: ClassVar[Accepted] = {"kValue": NUMBER}

    def __init__(self, arguments: Arguments) -> None:
        self._k = number(arguments, "kValue", 1.0)

    def open(self, session: Session) -> None:
        cluster = session.cluster
        held = {q: a.allocated.v for q, a in queue_accounts(cluster).items()}
        total = cluster.total.v
        counted = (total > 0) & cluster.dims.compared

        def rank(queue: int) -> float:
            spec = cluster.queues[queue]
            now = 0.0
            if queue in held and counted.any():
                now = float((held[queue][counted] / total[counted]).max())
            return (self._k * spec.past_usage + now) / max(spec.weight, 1)

        def compare(left: int, right: int) -> int:
            a, b = rank(left), rank(right)
            return (a > b) - (a < b)

        def changed(change: Change) -> None:
            held[change.job.queue] = held[change.job.queue] + change.vector

        session.add("queue_order", self.name, compare)
        session.add("changed", self.name, changed)
