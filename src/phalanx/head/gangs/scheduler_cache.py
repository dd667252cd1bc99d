"""The scheduler's view of the cluster, which is kept from cycle to cycle and patched after events.

Events tell the cache what to patch. The cache reads everything again when gangs have network
topologies, when the set of resource names changes, and after a failed cycle. A patched view equals
one that is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from phalanx.head.gangs.cycle_times import CycleTimes
from phalanx.head.gangs.gang import Gang, Member
from phalanx.head.gangs.member_lifecycle import Move
from phalanx.head.gangs.member_states import GOING, HELD, PLACING, WAITING
from phalanx.head.gangs.quarantine import Quarantine, culprit
from phalanx.model.gpu_sharing import GPU, MEMORY
from phalanx.model.ids import GangId, GroupId
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.config import Configuration
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.kept import OUT, KeptCluster, NotPatchableError, Standing
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.specs import (
    Amounts,
    HyperNodeSpec,
    LicenseSpec,
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    ReservationSpec,
    Snapshot,
    TaskSpec,
)

EVICTING = frozenset({"preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle", "consolidate"})
"""Actions that evict. These actions take most of the time of a long cycle, and seldom find
victims.
"""


PREFERRING = frozenset({"binpack", "selector"})
"""Plugins that only express preferences among nodes. Without them, a cycle still decides correctly,
but chooses worse nodes.
"""

NOT_RESTING = float("inf")
"""A time so late that every rest of a gang has ended."""


class ClusterSource(Protocol):
    """The source of everything that cycles read, in its current state."""

    def nodes(self) -> Iterable[NodeSpec]:
        """Return the nodes that are not dead."""
        ...

    def queues(self) -> Iterable[QueueSpec]:
        """Return the queues, with the amounts that they deserve now."""
        ...

    def hypernodes(self) -> tuple[HyperNodeSpec, ...]:
        """Return the network domains."""
        ...

    def taken_changes(self) -> Mapping[str, Amounts]:
        """Return the resources that work outside of gangs takes, for each node where these may have
        changed since the last call.
        """
        ...

    def reservations(self, wall: float) -> tuple[ReservationSpec, ...]:
        """Return the reservations at and after this wall-clock time in seconds."""
        ...

    def licenses(self) -> tuple[LicenseSpec, ...]:
        """Return the number of licenses of each kind in the cluster."""
        ...

    def podgroup(self, gang: Gang) -> PodGroupSpec:
        """Return the gang's podgroup, without ended members."""
        ...

    def task(self, gang: Gang, index: int) -> TaskSpec:
        """Return the task of a member that waits for its place."""
        ...


class SchedulerCache:
    """Runs cycles over the gangs in `seen`. Follows the life cycle of members."""

    def __init__(
        self,
        rules: Callable[[bool], Configuration],
        source: ClusterSource,
        seen: Mapping[GroupId, Gang],
        member_of: Mapping[str, tuple[Gang, int]],
        quarantine: Quarantine,
        shells: Mapping[str, Any] | None = None,
        on_plugin_left_out: Callable[[str, Exception], None] = lambda name, error: None,
    ) -> None:
        """`rules` returns the rules that cycles follow; its argument is whether queues have paths
        (`volcano.sh/hierarchy`). `shells` has the objects of the head that plugins use, by name.
        `on_plugin_left_out` is called with a plugin that cycles leave out from now on, and with the
        plugin's error.
        """
        self._on_plugin_left_out = on_plugin_left_out
        self._left_out: set[str] = set()
        self._set_aside = quarantine
        self._rules = rules
        self._source = source
        self._seen = seen
        self._member_of = member_of
        self._shells = shells
        self._kept: KeptCluster | None = None
        self._gangs_changed: dict[GangId, tuple[Gang, set[int] | None]] = {}
        """The members whose columns may be out of date, by gang; None stands for all members of the
        gang.
        """
        self._old_names: list[tuple[str, list[str]]] = []
        """The former names of gangs that were renamed, each with the former names of its members'
        tasks.
        """
        self._resting: dict[GroupId, Gang] = {}
        self._taken: dict[str, Amounts] = {}
        """The amounts that work outside of gangs takes on each node."""
        self._have_nodes_changed = self._have_queues_changed = False
        self._has_clock_stepped = False

    # ---- changes -----------------------------------------------------------------------------

    def gang_changed(self, gang: Gang) -> None:
        """Note that a gang is seen from now on, has more members, or is over."""
        self._gangs_changed[gang.gang_id] = (gang, None)

    def gang_renamed(self, gang: Gang, uid: str, tasks: list[str]) -> None:
        """Note the former name of a renamed gang, and the former names of its members' tasks."""
        self._old_names.append((uid, tasks))
        self.gang_changed(gang)

    def gang_amended(self, gang: Gang) -> None:
        """Note that a gang's terms may have changed."""
        self._gangs_changed.setdefault(gang.gang_id, (gang, set()))

    def members_moved(self, gang: Gang, move: Move) -> None:
        """Note that members of a gang have changed their states."""
        _, known = self._gangs_changed.get(gang.gang_id, (gang, set()))
        if known is not None:
            known.update(move.indexes)
            self._gangs_changed[gang.gang_id] = (gang, known)

    def gang_rests(self, gang: Gang) -> None:
        """Exclude a gang until its `rests_until`: the gang keeps what it holds, and its waiting
        members get no places.
        """
        self._resting[gang.gang_id] = gang
        self.gang_changed(gang)

    def nodes_changed(self) -> None:
        """Note that a node joined, began to drain, died, or got different totals or labels."""
        self._have_nodes_changed = True

    def queues_changed(self) -> None:
        """Note that queues, their quotas, or the amounts that they deserve have changed."""
        self._have_queues_changed = True

    def clock_stepped(self) -> None:
        """Note that the times stored for gangs and members have been shifted."""
        self._has_clock_stepped = True

    def rules_changed(self) -> None:
        """Read everything again, because the rules have changed. Plugins that were left out are
        used again.
        """
        self._kept = None
        self._left_out.clear()

    # ---- cycles ------------------------------------------------------------------------------

    def decide(self, now: float, wall: float, times: CycleTimes, *, evicts: bool) -> Plan:
        """Run a cycle and return its plan. `now` is on the head's clock, `wall` in seconds since
        the epoch. Unless `evicts` is set, nothing is evicted, even if the configuration has actions
        that evict.
        """
        began = times.now()
        cluster = self.cluster(now, wall)
        times.read(began)
        config = self._config_for(cluster.queues)
        snapshot = self._beside_columns(config if evicts else gentle(config), wall)
        kept, self._kept = self._kept, None  # a cycle that fails leaves meaningless columns
        try:
            plan = run_cycle(
                snapshot, clock=times.now, times_hooks=times.plan_hook_timing(),
                shells=self._shells, cluster=cluster, explains=False,
            )  # fmt: skip
        except Exception as error:
            bad = culprit(self._living(), lambda gangs: self._fails(snapshot, gangs, now))
            if bad is not None:
                self._set_aside.add(bad, error)
            elif not self._leave_out_plugin(snapshot, now, error):
                raise
            return self.decide(now, wall, times, evicts=evicts)
        if cluster is kept:
            kept.take_back(plan)
            self._kept = kept
            for task in (*plan.binds, *plan.evicted):
                gang, index = self._member_of[task]
                _, known = self._gangs_changed.setdefault(gang.gang_id, (gang, set()))
                if known is not None:
                    known.add(index)
        return plan

    def _leave_out_plugin(self, snapshot: Snapshot, now: float, error: Exception) -> bool:
        """If the error comes from a plugin that only expresses preferences among nodes, leave this
        plugin out until the head restarts. Returns False if the error comes from another plugin, or
        does not occur a second time, because its cause is then unknown.
        """
        gangs = self._living()
        if not self._fails(snapshot, gangs, now):
            return False
        for name in sorted(PREFERRING.intersection(snapshot.config.plugin_names())):
            rules = msgspec.structs.replace(snapshot, config=_without(snapshot.config, {name}))
            if not self._fails(rules, gangs, now):
                self._left_out.add(name)
                self._on_plugin_left_out(name, error)
                return True
        return False

    def _living(self) -> list[Gang]:
        return [g for g in self._seen.values() if not g.is_over and g not in self._set_aside]

    def _fails(self, rules: Snapshot, gangs: Iterable[Gang], now: float) -> bool:
        """Whether a cycle over these gangs alone raises an error."""
        seen = msgspec.structs.replace(self.snapshot(gangs, now, rules.now), config=rules.config)
        try:
            run_cycle(seen, shells=self._shells, explains=False)
        except Exception:
            return True
        return False

    def cluster(self, now: float, wall: float) -> Cluster:
        """Return the current columns. The columns are patched if possible, and otherwise read
        again.
        """
        self._wake(now)
        taken = self._source.taken_changes()
        self._taken |= taken
        if self._kept is not None and self._has_clock_stepped:
            return self._read(now, wall, self._kept)
        if self._kept is not None:
            try:
                self._patch(self._kept, now)
                _occupy(self._kept, taken)
            except NotPatchableError:
                self._read(now, wall, self._kept)
        if self._kept is None:
            return self._read(now, wall, None)
        return self._kept

    def columns_to_try(
        self, also: Gang, now: float, wall: float
    ) -> tuple[Snapshot, KeptCluster] | None:
        """Return a snapshot with the rules, reservations and licenses, and a copy of the columns,
        for a trial cycle. Resting gangs and the gang `also` take part in that cycle. Returns None
        if the columns cannot be patched.
        """
        kept = self.cluster(now, wall)
        if not isinstance(kept, KeptCluster):
            return None
        columns = kept.copy()
        resting = [gang for gang in self._resting.values() if gang.gang_id in self._seen]
        try:
            for gang in {one.gang_id: one for one in (*resting, also)}.values():
                if gang not in self._set_aside:
                    self._enter(columns, gang, range(len(gang.members)), NOT_RESTING)
        except NotPatchableError:
            return None
        columns.nominated.clear()
        for job in columns.jobs:
            job.phase = job.spec.phase
        return self._beside_columns(self._config_for(columns.queues), wall), columns

    def _beside_columns(self, config: Configuration, wall: float) -> Snapshot:
        source = self._source
        return Snapshot(
            config=config,
            reservations=source.reservations(wall),
            licenses=source.licenses(),
            now=wall,
        )

    def _wake(self, now: float) -> None:
        rested = [gang for gang in self._resting.values() if gang.rests_until <= now]
        for gang in rested:
            del self._resting[gang.gang_id]
            self.gang_changed(gang)

    def _read(self, now: float, wall: float, before: KeptCluster | None) -> Cluster:
        """Read everything again. Podgroups keep the phases that earlier cycles gave them."""
        snapshot = self.truth(now, wall)
        self._gangs_changed.clear()
        self._old_names.clear()
        self._have_nodes_changed = self._have_queues_changed = self._has_clock_stepped = False
        try:
            self._kept = KeptCluster(snapshot)
        except NotPatchableError:
            self._kept = None
        cluster = Cluster(snapshot) if self._kept is None else self._kept
        if before is not None:
            phases = {job.uid: job.phase for job in before.jobs}
            for job in cluster.jobs:
                job.phase = phases.get(job.uid, job.phase)
            cluster.take_homes(before)
        _occupy(cluster, self._taken)
        return cluster

    # ---- patching ----------------------------------------------------------------------------

    def _patch(self, kept: KeptCluster, now: float) -> None:
        """Bring the columns up to date. New nodes and queues are entered before the gangs that use
        them. Old nodes and queues are removed after the gangs that used them. Raises
        NotPatchableError.
        """
        nodes = list(self._source.nodes()) if self._have_nodes_changed else None
        queues = list(self._source.queues()) if self._have_queues_changed else None
        if nodes is not None:
            there = {node.name for node in nodes}
            kept.set_nodes([*nodes, *(node for node in kept.nodes if node.name not in there)])
        if queues is not None:
            names = {queue.name for queue in queues}
            kept.set_queues([*queues, *(q for q in kept.queues if q.name not in names)])
        for uid, tasks in self._old_names:
            _forget_names(kept, uid, tasks)
        self._old_names.clear()
        # Gangs that are over come first, because the next gang of a job has the same name.
        changed = sorted(self._gangs_changed.values(), key=lambda one: one[0].gang_id in self._seen)
        for gang, members in changed:
            try:
                self._patch_gang(kept, gang, members, now)
            except NotPatchableError:
                raise
            except Exception as error:
                self._set_aside.add(gang, error)
                raise NotPatchableError(f"{gang.uid} could not be read") from error
        self._gangs_changed.clear()
        if nodes is not None:
            kept.set_nodes(nodes)
            self._taken = {name: x for name, x in self._taken.items() if name in kept.node_index}
            _occupy(kept, self._taken)
        if queues is not None:
            kept.set_queues(queues)
        self._have_nodes_changed = self._have_queues_changed = False

    def _patch_gang(
        self, kept: KeptCluster, gang: Gang, members: set[int] | None, now: float
    ) -> None:
        if gang.gang_id not in self._seen:
            self._set_aside.forget(gang)
            # The ends of its other members must not wake the next gang of the job, which has the
            # same name.
            self._resting.pop(gang.gang_id, None)
        if gang.gang_id not in self._seen or gang in self._set_aside:
            self._forget_gang(kept, gang)
            return
        indexes = range(len(gang.members)) if members is None else sorted(members)
        self._enter(kept, gang, indexes, now)

    def _enter(self, kept: KeptCluster, gang: Gang, indexes: Sequence[int], now: float) -> None:
        """Enter the current state of these members into the columns."""
        uid = gang.uid
        names = [gang.task(index) for index in indexes]
        if not all(kept.knows(name) for name in names):
            self._forget_gang(kept, gang)
            indexes = range(len(gang.members))
            names = [gang.task(index) for index in indexes]
            by_name = sorted(indexes, key=names.__getitem__)
            kept.add_rows([self._source.task(gang, index) for index in by_name])
        standings = [
            standing(gang, index, name, now) for index, name in zip(indexes, names, strict=True)
        ]
        known = uid in kept.job_index
        if known or any(one.status != OUT for one in standings):
            kept.put_group(self._source.podgroup(gang))
            kept.stand(uid, standings)
            if not kept.jobs[kept.job_index[uid]].tasks:
                kept.drop_group(uid)

    def _forget_gang(self, kept: KeptCluster, gang: Gang) -> None:
        _forget_names(kept, gang.uid, [gang.task(index) for index in range(len(gang.members))])

    # ---- reading -----------------------------------------------------------------------------

    def truth(self, now: float, wall: float) -> Snapshot:
        """Return everything that a cycle reads. All of it is read again from the source."""
        return self.snapshot(self._living(), now, wall)

    def snapshot(self, gangs: Iterable[Gang], now: float, wall: float) -> Snapshot:
        """Return everything that a cycle reads, with these gangs only. A gang that cannot be read
        goes into quarantine.
        """
        source = self._source
        groups: list[PodGroupSpec] = []
        tasks: list[TaskSpec] = []
        for gang in gangs:
            found = [
                (index, one)
                for index in range(len(gang.members))
                if (one := standing(gang, index, "", now)).status != OUT
            ]
            if not found:
                continue
            try:
                group = source.podgroup(gang)
                of_group = [_standing_task(source.task(gang, i), one) for i, one in found]
            except Exception as error:
                self._set_aside.add(gang, error)
                continue
            groups.append(group)
            tasks += of_group
        bound = any(group.topology is not None or group.subgroups for group in groups)
        queues = tuple(source.queues())
        return Snapshot(
            config=self._config_for(queues),
            nodes=tuple(source.nodes()),
            hypernodes=source.hypernodes() if bound else (),
            queues=queues,
            podgroups=tuple(groups),
            tasks=tuple(tasks),
            reservations=source.reservations(wall),
            licenses=source.licenses(),
            now=wall,
        )

    def _config_for(self, queues: Iterable[QueueSpec]) -> Configuration:
        has_paths = any(queue.hierarchy_path for queue in queues)
        config = self._rules(has_paths)
        return _without(config, self._left_out) if self._left_out else config


def _forget_names(kept: KeptCluster, uid: str, tasks: Iterable[str]) -> None:
    known = [name for name in tasks if kept.knows(name)]
    if uid in kept.job_index:
        kept.stand(uid, [Standing(name, OUT) for name in known])
        kept.drop_group(uid)
    kept.drop_rows(known)


def gentle(config: Configuration) -> Configuration:
    """Return the configuration without the actions that evict."""
    return msgspec.structs.replace(
        config, actions=tuple(name for name in config.actions if name not in EVICTING)
    )


def _without(config: Configuration, plugins: Collection[str]) -> Configuration:
    tiers = (tuple(one for one in tier if one.name not in plugins) for tier in config.tiers)
    return msgspec.structs.replace(config, tiers=tuple(tiers))


def standing(gang: Gang, index: int, name: str, now: float) -> Standing:
    """Return a member's row in the columns. `name`: the name of the member's task."""
    member = gang.members[index]
    if member.state == WAITING:
        return Standing(name, OUT if gang.rests_until > now else j.PENDING)
    if member.state in (PLACING, HELD):
        return Standing(name, j.RUNNING, member.node, member.started, _card(member))
    if member.state in GOING:
        return Standing(name, j.RELEASING, member.node, member.started)
    return Standing(name, OUT)


def _card(member: Member) -> int:
    """Return the GPU of which a member has a part; -1 for no GPU or several GPUs, or if the
    member's place is not settled yet.
    """
    numbers = member.devices.get(GPU, [])
    is_part = member.need.get(GPU, 0) < 1 or MEMORY in member.need
    return numbers[0] if member.state == HELD and len(numbers) == 1 and is_part else -1


def _standing_task(spec: TaskSpec, one: Standing) -> TaskSpec:
    return msgspec.structs.replace(
        spec,
        node=one.node,
        phase=j.STATUS_NAMES[one.status],
        started=one.started,
        card=one.card,
    )


def _occupy(cluster: Cluster, taken: Mapping[str, Amounts]) -> None:
    for node, amounts in taken.items():
        if node in cluster.node_index:
            cluster.occupy(node, amounts)
