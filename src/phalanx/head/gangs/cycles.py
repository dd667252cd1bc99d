"""When the scheduler runs, and what it looks at.

Cycles run when something changed and something waits, and take no more than a part of the time.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from phalanx.batch.config import Configuration, parse_volcano
from phalanx.batch.plan import Plan
from phalanx.batch.registry import known_plugins
from phalanx.batch.specs import Amounts, QueueSpec, Shape, Snapshot, TaskSpec
from phalanx.head.gangs.gang import HELD, HOLDING, LEAVING, PLACING, WAITING, Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.network_domains import Domains
from phalanx.head.gangs.node_specs import node_specs, taken_by_others
from phalanx.head.gangs.room_claims import LOOK_EVERY_S, Claims, gentle
from phalanx.head.queues.control import Queues

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane

CONFIGURATION = """\
actions: "allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
  - name: conformance
  - name: capacity
    enableHierarchy: true
    arguments:
      onlyExcess: true
- plugins:
  - name: whole-gang
  - name: predicates
  - name: network-topology-aware
    arguments:
      hypernode.binpack.normal-pod.enable: false
  - name: binpack
"""
"""Evictions take whole gangs; weights say what queues deserve (`control.jobs.shares`). Capacity
stands in conformance's tier: the first tier that names victims decides."""
LEAST_PAUSE_S = 0.001
PAUSE = 2.0
"""Between two cycles lies at least so many times what the last one took, as others work in the same
thread; where none do, a shell sets less."""
LEAST_EVICTION_PAUSE_S, EVICTION_PAUSE = 0.05, 10.0
"""The same between two cycles that may take places away."""
REPORTS_PAUSE_S = 0.02
"""When only nodes' reports have changed, cycles are this far apart."""
OTHERS = "others"
"""The namespace under which a picture shows what is taken by work outside of gangs."""
AFTER_DEFECT_S = 1.0
"""A cycle that failed is tried again so much later."""
NEVER = float("inf")


@functools.cache
def configuration() -> Configuration:
    """The scheduler's rules."""
    return parse_volcano(CONFIGURATION, known_plugins())


class Cycles:
    """Runs the scheduler; `apply` does what it decides."""

    def __init__(
        self,
        shell: ControlPlane,
        queues: Queues,
        domains: Domains,
        apply: Callable[[Plan], None],
        stranded: Callable[[Gang], None],
    ) -> None:
        """`stranded` is told, after each cycle that finds it so, of a gang of which some members
        run that are too few, and the others find no room."""
        self._shell = shell
        self._stranded = stranded
        self._queues = queues
        self._domains = domains
        self._apply = apply
        self._config = configuration()
        self.registry = GangRegistry(shell, self._config, self.truth)
        self.pause = PAUSE
        self._claims = Claims(shell.send_node, self.registry.member_of, shell.clock)
        self._next = NEVER
        self._not_before = self._no_eviction_before = 0.0
        self._busy: frozenset[str] = frozenset()
        """The queues that had work when shares were worked out last."""

    # ---- what has changed --------------------------------------------------------------------

    def soon(self, within_s: float = 0.0) -> None:
        """Something changed: a cycle is due."""
        self._next = min(self._next, self._shell.clock() + within_s)

    def resources_changed(self) -> None:
        """Nodes report that something is free, or not."""
        self.soon(REPORTS_PAUSE_S)

    def nodes_changed(self) -> None:
        """A node joined, drains, is dead or has other totals."""
        self.registry.cache.forget()
        self.soon()

    def queues_changed(self, anew: bool) -> None:
        """Queues have other quotas; `anew`: there are others than before."""
        if anew:
            self.registry.cache.forget()
        else:
            self.registry.cache.set_queues(self._queue_specs())
        self.soon()

    # ---- running -----------------------------------------------------------------------------

    @property
    def wake_at(self) -> float:
        """When `round` has something to do."""
        return max(self._next, self._not_before)

    def round(self, now: float) -> None:
        """All messages that had come are handled: run a cycle if one is due."""
        if now < self.wake_at:
            return
        try:
            self._cycle(now)
        except Exception:  # a defect in a plugin, say: what runs must not end with it
            traceback.print_exc()
            self.registry.cache.forget()
            self.soon(AFTER_DEFECT_S)

    def _cycle(self, now: float) -> None:
        self._next = NEVER
        registry = self.registry
        self._admit()
        waiting = [gang for gang in registry.window.seen.values() if gang.waits]
        resting = [gang.retry_at for gang in waiting if gang.retry_at > now]
        if resting:
            self._next = min(resting)
        if len(waiting) > len(resting):
            self._wake_rested(waiting, now)
            self._run(waiting, now)
        elif not waiting:
            self._claims.drop()
        took_s = self._shell.clock() - now
        self._not_before = now + took_s + max(LEAST_PAUSE_S, self.pause * took_s)

    def _admit(self) -> None:
        """Look at those gangs from now on whose turn it is."""
        registry = self.registry
        for gang in registry.window.next():
            group, tasks = registry.podgroups.podgroup(gang), registry.podgroups.tasks(gang, [])
            registry.cache.admit(group, tasks)

    def _run(self, waiting: Iterable[Gang], now: float) -> None:
        self._share_out()
        may_evict = self._may_evict(waiting)
        evicts = may_evict and now >= self._no_eviction_before
        plan = self.registry.cache.decide(self._shell.wall(), self._taken(), evicts=evicts)
        self._apply(plan)
        yields = {
            r.node_id: self._shell.nodes.yields(r.node_id) for r in self._shell.nodes.living()
        }
        if self._claims.look(lambda: gentle(self.truth()), self._taken(), yields):
            self._next = min(self._next, now + LOOK_EVERY_S)
        if evicts or not may_evict:  # else room may be made for them yet
            self._look_for_stranded(waiting, plan, now)
        if plan.binds and self.registry.window.is_holding_back:
            self.soon()  # those behind may find room as well
        if evicts:
            done = self._shell.clock()
            pause_s = max(LEAST_EVICTION_PAUSE_S, EVICTION_PAUSE * (done - now))
            self._no_eviction_before = done + pause_s
        elif may_evict:
            self._next = min(self._next, self._no_eviction_before)

    def _look_for_stranded(self, waiting: Iterable[Gang], plan: Plan, now: float) -> None:
        """Tell of gangs of which too few run, while the cycle found no room for the others."""
        for gang in waiting:
            held = gang.among(HELD)
            is_settled = not gang.among(PLACING, LEAVING) and gang.retry_at <= now
            if not held or not gang.waits or not is_settled:
                continue
            if any(task in plan.pipelined for task in gang.tasks(gang.among(WAITING))):
                continue  # somebody goes for them
            if len(held) < self.registry.podgroups.podgroup(gang).min_member:
                self._stranded(gang)

    def _may_evict(self, waiting: Iterable[Gang]) -> bool:
        """Whether somebody who waits might have a right to what somebody holds."""
        lowest: dict[str, int] = {}
        for gang in self.registry.active.values():
            lowest[gang.queue] = min(gang.priority, lowest.get(gang.queue, gang.priority))
        return any(
            gang.priority > lowest.get(gang.queue, gang.priority)
            or any(queue != gang.queue for queue in lowest)
            for gang in waiting
        )

    def _wake_rested(self, waiting: Iterable[Gang], now: float) -> None:
        rested = [gang for gang in waiting if 0 < gang.retry_at <= now]
        for gang in rested:
            gang.retry_at = 0.0
        if rested:
            self.registry.cache.forget()

    # ---- what it looks at --------------------------------------------------------------------

    def _share_out(self) -> None:
        busy = self.registry.window.queues()
        if busy != self._busy:
            self._busy = busy
            self.registry.cache.set_queues(self._queue_specs())

    def _queue_specs(self) -> list[QueueSpec]:
        total: dict[str, float] = {}
        for record in self._shell.nodes.living():
            for name, amount in record.totals.items():
                total[name] = total.get(name, 0.0) + amount
        return self._queues.specs(self._busy, total)

    def truth(self) -> Snapshot:
        """What cycles look at, for reading it anew."""
        now = self._shell.clock()
        gangs = [gang for gang in self.registry.window.seen.values() if not gang.is_over]
        resting = frozenset(gang.group for gang in gangs if gang.retry_at > now)
        chosen = [g for g in gangs if g.group not in resting or g.among(*HOLDING)]
        return self._snapshot(chosen, resting)

    def picture(self, also: Gang | None = None, *, whole: bool = False) -> Snapshot:
        """The same with what others take of nodes, for people; with one more gang, or with all,
        also those that no cycle looks at yet."""
        self._admit()
        registry = self.registry
        gangs = registry.gangs if whole else registry.window.seen
        chosen = [gang for gang in gangs.values() if not gang.is_over]
        if also is not None and also not in chosen:
            chosen.append(also)
        found = self._snapshot(chosen)
        others = [
            TaskSpec(
                name=f"others-{node[:8]}",
                podgroup="",
                shape=Shape(request=amounts, namespace=OTHERS),
                node=node,
                phase="Running",
                preemptable=False,
            )
            for node, amounts in self._taken().items()
            if amounts
        ]
        return msgspec.structs.replace(found, tasks=(*found.tasks, *others))

    def _taken(self) -> dict[str, Amounts]:
        rows = [self._shell.nodes.row(r.node_id) for r in self._shell.nodes.living()]
        return taken_by_others(rows, self.registry.held())

    def _snapshot(self, gangs: list[Gang], resting: frozenset[bytes] = frozenset()) -> Snapshot:
        """What resting gangs hold is held; who of them waits takes no part."""
        registry = self.registry
        self._busy = registry.window.queues()
        records = self._shell.nodes.living()
        groups = [registry.podgroups.podgroup(gang) for gang in gangs]
        bound = any(group.topology is not None or group.subgroups for group in groups)
        known = {record.node_id for record in records}
        tasks: list[TaskSpec] = []
        for gang in gangs:
            nodes = [node if node in known else "" for node in registry.nodes_of(gang)]
            specs = registry.podgroups.tasks(gang, nodes)
            tasks += [spec for spec in specs if spec.node or gang.group not in resting]
        return Snapshot(
            config=self._config,
            nodes=tuple(node_specs(records)),
            hypernodes=self._domains.specs(records) if bound else (),
            queues=tuple(self._queue_specs()),
            podgroups=tuple(groups),
            tasks=tuple(tasks),
            now=self._shell.wall(),
        )
