"""The rows that filters and scorers read: amounts of some nodes, as arrays with one row per node.

Either each row stands for a different node, or all rows stand for one node, with one more task on
it in each further row. A rule that reads only rows need not know which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from phalanx.scheduler.cycle.amounts import Counts, Flags, Vector
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job, SubJob

Indexes = npt.NDArray[np.intp]

NEVER, TOUCHED, BY_ONE, ALWAYS = 0, 1, 2, 3
"""The changes within a cycle that can change a rule's answer about a node.

NEVER: no change. TOUCHED: a change of the node's own amounts. BY_ONE: as TOUCHED, but the rule
cannot answer for rows that repeat one node with more tasks on it. So tasks are placed one by one.
ALWAYS: any placement on any node.
"""


class Change:
    """Equal tasks of a job, one for each entry of `nodes`, that were given room there or lost it.

    `sign`: 1 if they were given room, -1 if they lost it.
    """

    __slots__ = ("eq_class", "job", "nodes", "sign", "tasks", "vector")

    def __init__(
        self,
        job: Job,
        eq_class: EquivalenceClass,
        tasks: Sequence[int],
        nodes: Sequence[int],
        sign: int,
    ) -> None:
        self.job = job
        self.eq_class = eq_class
        self.tasks = tasks
        self.nodes = nodes
        self.sign = sign
        self.vector: Vector = eq_class.vector * (len(tasks) * sign)
        """The request of all these tasks together, times `sign`. Most plugins need only this
        vector.
        """


class Rows:
    """Columns like those of Cluster, for the nodes in `index`."""

    __slots__ = ("_cluster", "_eq_class", "_taken", "_times", "index")

    def __init__(
        self,
        cluster: Cluster,
        index: Indexes,
        eq_class: EquivalenceClass | None = None,
        times: Counts | None = None,
    ) -> None:
        self._cluster = cluster
        self._eq_class = eq_class
        self._times = times
        self._taken: dict[str, Counts] = {}
        self.index = index

    def __len__(self) -> int:
        return len(self.index)

    def capacities(self) -> Counts:
        """Return the nodes' capacities, as an array with a row for each resource. This array and
        those of the methods below are shared, so callers must not write to them.
        """
        return self._taken_of("capacity", None)

    def capacity(self, resource: int) -> Counts:
        """Return one row of `capacities`: the capacity of each node for this resource."""
        taken = self._taken.get("capacity")
        column: Counts
        if taken is None:  # one row at a time, because the other resources may never be needed
            column = self._cluster.capacity[:, resource].take(self.index)
        else:
            column = taken[resource]
        return column

    def used_of_all(self) -> Counts:
        """Return Volcano's used amounts, as an array with a row for each resource: promised tasks
        are not counted, and leaving tasks are.
        """
        more = None if self._eq_class is None else self._eq_class.request
        return self._taken_of("used", more)

    def used(self, resource: int) -> Counts:
        """Return one row of `used_of_all`."""
        column: Counts = self.used_of_all()[resource]
        return column

    def asked_of_all(self) -> Counts:
        """Return the amounts that kube-scheduler counts, as an array with a row for each resource:
        promised tasks are counted, and leaving tasks are not.
        """
        more = None if self._eq_class is None else self._eq_class.request
        return self._taken_of("asked", more)

    def weighed(self) -> Counts:
        """Return the cpu and memory of `asked_of_all`, as an array with two rows. Here a task that
        requests no cpu, or no memory, counts as a small task.
        """
        more = None if self._eq_class is None else self._eq_class.weighed
        return self._taken_of("weighed", more)

    def free(self, resource: int) -> Counts:
        """Return the amounts that will be idle once all leaving tasks are gone and all promised
        tasks have arrived.
        """
        more = None if self._eq_class is None else -self._eq_class.request
        column: Counts = self._taken_of("future", more)[resource]
        return column

    def seats(self) -> Counts:
        """Return the number of tasks on each node."""
        column: Counts = self._cluster.seats.take(self.index)
        return column if self._times is None else column + self._times

    def more_tasks(self) -> int | Counts:
        """Return how many further tasks of the class each row has on its node."""
        return 0 if self._times is None else self._times

    def _taken_of(self, name: str, more: Counts | None) -> Counts:
        """Return columns of amounts for these nodes. All rules that read the same columns share
        them. If the rows repeat one node, each further row has one more task on it, whose amounts
        are `more`.
        """
        taken = self._taken.get(name)
        if taken is None:
            books: Counts = getattr(self._cluster, name)
            taken = books.T.take(self.index, axis=1)
            if self._times is not None and more is not None:
                taken += more[:, None] * self._times
            self._taken[name] = taken
        return taken


class Ask(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The question of where a task of a class may run. An action asks it for the task's job."""

    task: int
    eq_class: EquivalenceClass
    job: Job
    sub: SubJob | None
    domain: str = ""
    """The smallest network domain that contains all tasks of the subjob that have places."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A rule that turns nodes away.

    `reason`: the code of the filter's rejection. `passes` returns a flag for each node: whether it
    may take the task, now or after leaving tasks are gone. `passes_beside_leaving` returns such
    flags for the time while leaving tasks are still there; the function is None if its flags would
    equal those of `passes`. `detail` returns the details of the rejection. It returns None if the
    rejection of the podgroup says everything already.

    `curable`: whether evictions could change a refusal. `changes`: which changes can change the
    answer for a class (NEVER to ALWAYS). `scope`: what the answer depends on in addition to the
    class: "" (nothing), "queue", "kind" (jobs for which `kind` returns equal values), "job" or
    "task". `frozen`: whether trial evictions leave the answer unchanged. `lasting`: whether the
    answer depends only on the class and on the node's amounts and description. A lasting answer
    stays valid in later cycles.
    """

    reason: str
    passes: Callable[[Rows, Ask], Flags]
    changes: Callable[[EquivalenceClass], int]
    curable: bool = False
    frozen: bool = False
    lasting: bool = False
    scope: str = ""
    kind: Callable[[Job], Hashable] | None = None
    detail: Callable[[Ask], Mapping[str, Any] | None] | None = None
    passes_beside_leaving: Callable[[Rows, Ask], Flags] | None = None


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """A rule that ranks nodes. `score` returns one number per row; higher is better. `scope`,
    `changes` and `lasting` have the same meaning as in Filter.
    """

    name: str
    score: Callable[[Rows, Ask], Vector]
    changes: Callable[[EquivalenceClass], int]
    lasting: bool = False
    scope: str = ""


def never(_: EquivalenceClass) -> int:
    return NEVER


def touched(_: EquivalenceClass) -> int:
    return TOUCHED


def by_one(_: EquivalenceClass) -> int:
    return BY_ONE


def always(_: EquivalenceClass) -> int:
    return ALWAYS
