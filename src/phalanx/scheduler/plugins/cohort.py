"""The plugin cohort: the queues of a cohort lend each other the deserved amounts that they do not
use, up to limits.

Modelled on Kueue's cohorts. A queue may hold what it deserves, plus the smaller of two amounts: its
borrowing limit, and what the other queues of its cohort can lend. A queue lends at most its lending
limit, minus the amounts that it has already lent. So the queues of a cohort together never hold
more than they deserve together. Lent amounts are returned by reclaim. A queue without a cohort may
hold only the amounts that it deserves. If it deserves nothing at all, the plugin does not limit it.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.accounts import queue_accounts
from phalanx.scheduler.cycle.amounts import Vector, fits_how_often
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Change
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Amounts
from phalanx.scheduler.plugin_parts.quotas import above


class Cohort:
    """The plugin cohort. It takes no arguments. Queues declare `cohort`, `deserved`,
    `borrowing_limit` and `lending_limit`.
    """

    name = "cohort"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        self._cluster = cluster = session.cluster
        dims = cluster.dims
        nothing = np.zeros(len(dims))
        accounts = queue_accounts(cluster)
        self._deserved = [dims.counts(q.deserved).astype(np.float64) for q in cluster.queues]
        self._held = [
            accounts[i].allocated.v.copy() if i in accounts else nothing.copy()
            for i in range(len(cluster.queues))
        ]
        self._borrow = [self._limit(q.borrowing_limit) for q in cluster.queues]
        self._lend = [self._limit(q.lending_limit) for q in cluster.queues]
        session.add("queue_room", self.name, self._room)
        session.add("shortage", self.name, self._shortage)
        session.add("changed", self.name, self._changed)

    def _limit(self, written: Amounts | None) -> Vector:
        """Return the limit as a vector. Resources that it does not name are unlimited."""
        out = np.full(len(self._cluster.dims), np.inf)
        dims = self._cluster.dims
        for name, _ in written or ():
            if name in dims.index:
                i = dims.index[name]
                out[i] = dims.counts(written or ())[i]
        return out

    def _room(self, queue: int, eq_class: EquivalenceClass) -> int:
        most = self._most(queue)
        if most is None:
            return 1 << 30
        return fits_how_often(self._held[queue], most, eq_class.under_quota)

    def _shortage(
        self, queue: int, _: Job, eq_class: EquivalenceClass, count: int
    ) -> list[Rejection]:
        most = self._most(queue)
        if most is None:
            return []
        used = self._held[queue] + eq_class.vector * count
        return above(self._cluster, "queue-quota", queue, used, most, eq_class.vector * count)

    def _most(self, queue: int) -> Vector | None:
        """Return the largest amounts that the queue may hold now; None if the plugin does not limit
        the queue.
        """
        spec = self._cluster.queues[queue]
        if not spec.cohort and not spec.deserved:
            return None
        most: Vector = self._deserved[queue] + np.minimum(
            self._borrow[queue], self._lendable(queue)
        )
        return most

    def _lendable(self, queue: int) -> Vector:
        """Return the amounts that `queue` could borrow: what the other queues of its cohort lend,
        minus what has been borrowed by queues other than `queue`.
        """
        total = np.zeros(len(self._cluster.dims))
        name = self._cluster.queues[queue].cohort
        for i, other in enumerate(self._cluster.queues):
            if i == queue or not name or other.cohort != name:
                continue
            unused = self._deserved[i] - self._held[i]
            total += np.where(unused > 0, np.minimum(self._lend[i], unused), unused)
        return total

    def _changed(self, change: Change) -> None:
        self._held[change.job.queue] = self._held[change.job.queue] + change.vector
