"""A cluster that is kept from cycle to cycle always equals one that is built anew from the same
state.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.effort import examples

from phalanx.head.gangs.cycles import configuration
from phalanx.model.garbage import uncollected
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle import kept as module
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.config import parse_volcano
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.kept import KeptCluster, NotPatchableError, Standing
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import (
    HyperNodeSpec,
    NetworkTopology,
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)

CONFIG = parse_volcano(
    """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
""",
    known_plugins(),
)
SHAPES = [
    Shape(request=(("cpu", 1.0),)),
    Shape(request=(("cpu", 2.0), ("memory", 1e9)), role="b"),
    Shape(request=()),
]


def machine(name: str, cpu: float = 4.0, **fields: Any) -> NodeSpec:
    return NodeSpec(name=name, capacity=(("cpu", cpu), ("memory", 4e9), ("pods", 9.0)), **fields)


def start(nodes: int, *, hypernodes: tuple[HyperNodeSpec, ...] = ()) -> Snapshot:
    return Snapshot(
        config=CONFIG,
        nodes=tuple(machine(f"n{i}") for i in range(nodes)),
        hypernodes=hypernodes,
        queues=(QueueSpec(name="a"), QueueSpec(name="b", weight=3)),
    )


def gang(i: int, size: int, least: int, shape: int, priority: int, queue: str) -> Any:
    group = PodGroupSpec(
        name=f"g{i:03d}", queue=queue, min_member=least, priority=priority, created=float(i),
        min_task_member=(("b", 1),) if shape == 1 else (),
    )  # fmt: skip
    tasks = [
        TaskSpec(name=f"g{i:03d}-{k}", podgroup=group.name, shape=SHAPES[shape], created=float(i))
        for k in range(size)
    ]
    return group, tasks


def admit(kept: KeptCluster, group: PodGroupSpec, tasks: list[TaskSpec]) -> None:
    kept.put_group(group)
    kept.add_rows(tasks)
    kept.stand(group.uid, [Standing(task.uid, j.PENDING) for task in tasks])


def carry_out(kept: KeptCluster, now: float) -> list[str]:
    """Run a cycle and carry out its whole plan; return the tasks that were bound."""
    plan = run_cycle(Snapshot(config=CONFIG), cluster=kept)
    kept.take_back(plan)
    for uid, node in plan.binds.items():
        kept.stand(uid.rpartition("-")[0], [Standing(uid, j.RUNNING, node, now)])
    for uid in plan.evicted:
        kept.stand(uid.rpartition("-")[0], [Standing(uid, j.PENDING)])
    return list(plan.binds)


def end(kept: KeptCluster, uids: list[str]) -> None:
    """End these tasks, and with them their podgroups."""
    for uid in uids:
        kept.stand(uid.rpartition("-")[0], [Standing(uid, j.SUCCEEDED)])
    for group in dict.fromkeys(uid.rpartition("-")[0] for uid in uids):
        kept.drop_group(group)
    kept.drop_rows(uids)


BOOKS = ("idle", "future", "used", "releasing", "promised", "asked", "weighed", "seats", "capacity")


def assert_same(kept: KeptCluster, read: Cluster) -> None:
    """Compare two clusters column by column. Rows are matched by name, because rows that were added
    later are at other positions.
    """
    assert kept.node_names == read.node_names
    assert kept.nodes == read.nodes
    assert kept.labels == read.labels
    for name in BOOKS:
        mine, theirs = getattr(kept, name), getattr(read, name)
        if mine.ndim == 2 and name != "weighed":
            columns = [kept.dims.index[one] for one in read.dims.names]
            mine = mine[:, columns]
        assert np.array_equal(mine, theirs), name
    live = [t for t, status in enumerate(kept.status) if status != j.SUCCEEDED]
    for name in ("status", "node_of", "started"):
        mine = {kept.task_uid[t]: getattr(kept, name)[t] for t in live}
        assert mine == dict(zip(read.task_uid, getattr(read, name), strict=True)), name
    nominated = {kept.task_uid[t]: node for t, node in kept.nominated.items() if t in live}
    assert nominated == {read.task_uid[t]: node for t, node in read.nominated.items()}
    assert kept.queues == read.queues
    assert kept.queue_index == read.queue_index
    columns = [kept.dims.index[one] for one in read.dims.names]
    assert np.array_equal(kept.held_in_queue[:, columns], read.held_in_queue)
    assert [job.index for job in kept.jobs] == list(range(len(kept.jobs)))
    assert sorted(kept.job_index) == sorted(read.job_index)
    for twin in read.jobs:
        job = kept.jobs[kept.job_index[twin.uid]]
        assert job.queue == twin.queue
        assert job.counts == twin.counts
        assert job.min_available == twin.min_available
        assert job.role_min == twin.role_min
        assert job.priority == twin.priority
        assert (job.eq_class and job.eq_class.shape) == (twin.eq_class and twin.eq_class.shape)
        assert list(job.held[columns]) == list(twin.held)
        assert list(job.total_request[columns]) == list(twin.total_request)
        assert job.role_counts == twin.role_counts
        assert job.phase == twin.phase
        assert msgspec.structs.replace(job.spec, phase=job.phase) == twin.spec
        assert [kept.task_uid[t] for t in job.tasks] == [read.task_uid[t] for t in twin.tasks]
        assert {kept.job_of[t] for t in job.tasks} <= {job.index}
        assert set(job.subjobs) == set(twin.subjobs)
        for uid, sub in job.subjobs.items():
            assert (sub.min_available, sub.counts) == (sub.job.min_available, job.counts)
            assert uid == twin.default_subjob.uid  # type: ignore[union-attr]


SMALL = st.integers(0, 2)


class Kept(RuleBasedStateMachine):
    """Reports events to the kept columns, records them separately, and compares both."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, PodGroupSpec] = {}
        self.tasks: dict[str, TaskSpec] = {}
        """Those that take part, as they stand."""
        self.nodes = {f"n{i}": machine(f"n{i}") for i in range(2)}
        self.queues = {q.name: q for q in start(0).queues}
        self.kept = KeptCluster(self.truth())
        self.made = 0

    def truth(self) -> Snapshot:
        return Snapshot(
            config=CONFIG,
            nodes=tuple(self.nodes.values()),
            queues=tuple(self.queues.values()),
            podgroups=tuple(self.groups.values()),
            tasks=tuple(self.tasks.values()),
        )

    def stand(self, uids: list[str], status: int, node: str = "") -> None:
        """Set the status and node of tasks of one podgroup, in the columns and in the record."""
        if not uids:
            return
        group = uids[0].rpartition("-")[0]
        self.kept.stand(group, [Standing(uid, status, node) for uid in uids])
        for uid in uids:
            self.tasks[uid] = msgspec.structs.replace(
                self.tasks[uid],
                node=node,
                phase=j.STATUS_NAMES[status],
                nominated_node=self.tasks[uid].nominated_node if status == j.PENDING else "",
            )

    def of(self, group: str) -> list[str]:
        return [uid for uid in self.tasks if uid.rpartition("-")[0] == group]

    def pick(self, data: st.DataObject, uids: list[str]) -> list[str]:
        return [uid for uid in uids if data.draw(st.booleans())]

    @rule(size=st.integers(1, 4), least=SMALL, shape=SMALL, priority=SMALL, data=st.data())
    def admitted(self, size: int, least: int, shape: int, priority: int, data: Any) -> None:
        queue = data.draw(st.sampled_from(sorted(self.queues)))
        group, tasks = gang(self.made, size, min(least, size), shape, priority, queue)
        self.made += 1
        self.groups[group.uid] = group
        self.tasks |= {task.uid: task for task in tasks}
        admit(self.kept, group, tasks)

    @rule(data=st.data())
    def decided(self, data: Any) -> None:
        """Run a cycle, and carry out some of its decisions."""
        plan = run_cycle(Snapshot(config=CONFIG), cluster=self.kept)
        again = run_cycle(self.truth())
        assert plan.binds == again.binds
        assert plan.evicted == again.evicted
        assert plan.pipelined == again.pipelined
        self.kept.take_back(plan)
        for uid, node in plan.nominations.items():
            self.tasks[uid] = msgspec.structs.replace(self.tasks[uid], nominated_node=node)
        for uid, phase in plan.phases.items():
            said = "Inqueue" if phase == "Unknown" else phase
            self.groups[uid] = msgspec.structs.replace(self.groups[uid], phase=said)
        for uid, node in plan.binds.items():
            if data.draw(st.integers(0, 3)):
                self.stand([uid], j.RUNNING, node)
            else:
                self.stand([uid], j.PENDING)
        for uid in plan.evicted:
            how = data.draw(st.sampled_from([j.RUNNING, j.RELEASING, j.PENDING]))
            node = self.tasks[uid].node
            self.stand([uid], how, "" if how == j.PENDING else node)

    @rule(data=st.data())
    def moved(self, data: Any) -> None:
        """Let some tasks be lost, leave, or wait again."""
        for group in sorted(self.groups):
            for uid in self.pick(data, self.of(group)):
                node = self.tasks[uid].node
                if node:
                    how = data.draw(st.sampled_from([j.PENDING, j.RELEASING]))
                    self.stand([uid], how, node if how == j.RELEASING else "")

    @rule(data=st.data())
    def ended(self, data: Any) -> None:
        """Remove some tasks. A podgroup that has no tasks left is also removed."""
        for group in sorted(self.groups):
            uids = self.pick(data, self.of(group))
            self.kept.stand(group, [Standing(uid, j.SUCCEEDED) for uid in uids])
            self.kept.drop_rows(uids)
            for uid in uids:
                del self.tasks[uid]
            if not self.of(group):
                self.kept.drop_group(group)
                del self.groups[group]

    @rule(data=st.data())
    def rests(self, data: Any) -> None:
        """Let a podgroup rest for a while, and then wait again."""
        for group in sorted(self.groups):
            uids = self.of(group)
            if data.draw(st.booleans()) and not any(self.tasks[uid].node for uid in uids):
                self.kept.stand(group, [Standing(uid, j.SUCCEEDED) for uid in uids])
                self.kept.drop_group(group)
                self.groups[group] = msgspec.structs.replace(self.groups[group], phase="Pending")
                self.kept.put_group(self.groups[group])
                self.kept.stand(group, [Standing(uid, j.PENDING) for uid in uids])
                for uid in uids:  # what was set aside for it before is not any more
                    task = self.tasks[uid]
                    self.tasks[uid] = msgspec.structs.replace(task, nominated_node="")

    @rule(data=st.data(), least=SMALL, role=st.booleans(), priority=SMALL)
    def amended(self, data: Any, least: int, role: bool, priority: int) -> None:
        for group in self.pick(data, sorted(self.groups)):
            said = msgspec.structs.replace(
                self.groups[group],
                min_member=least,
                min_task_member=(("b", 1),) if role else (),
                priority=priority,
            )
            self.groups[group] = said
            self.kept.put_group(msgspec.structs.replace(said, phase="Pending"))

    @rule(cpu=st.sampled_from([2.0, 4.0]), shut=st.booleans(), name=st.integers(0, 4))
    def node_there(self, cpu: float, shut: bool, name: int) -> None:
        """Add a node, or change a node's totals, labels or readiness."""
        node = machine(f"n{name}", cpu, unschedulable=shut, labels=(("big", str(cpu)),))
        self.nodes[node.name] = node
        self.kept.set_nodes(self.nodes.values())

    @rule(data=st.data())
    def node_gone(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        if len(self.nodes) == 1:
            return
        for uid, task in list(self.tasks.items()):
            if task.node == name:
                self.stand([uid], j.PENDING)
            if task.nominated_node == name:
                self.tasks[uid] = msgspec.structs.replace(self.tasks[uid], nominated_node="")
        del self.nodes[name]
        self.kept.set_nodes(self.nodes.values())

    @rule(name=st.sampled_from("abcd"), weight=st.integers(1, 5))
    def queue_there(self, name: str, weight: int) -> None:
        self.queues[name] = QueueSpec(name=name, weight=weight)
        self.kept.set_queues(self.queues.values())

    @rule(name=st.sampled_from("abcd"))
    def queue_gone(self, name: str) -> None:
        used = {group.queue for group in self.groups.values()}
        if name in self.queues and name not in used and len(self.queues) > 1:
            del self.queues[name]
            self.kept.set_queues(self.queues.values())

    @invariant()
    def as_read(self) -> None:
        assert_same(self.kept, Cluster(self.truth()))
        read = self.kept.snapshot_now()
        assert sorted(read.tasks, key=lambda task: task.uid) == [
            self.tasks[uid] for uid in sorted(self.tasks)
        ]


@pytest.fixture(scope="module", params=[0, 64], ids=["forgets at once", "seldom forgets"])
def spare(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SPARE", request.param)
        yield


@pytest.mark.usefixtures("spare")
def test_stays_as_read() -> None:
    run_state_machine_as_test(
        Kept,
        settings=settings(
            max_examples=examples(60),
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_what_others_take_is_not_free_until_they_take_less() -> None:
    kept = KeptCluster(start(1))
    at = kept.dims.index["cpu"]
    kept.occupy("n0", (("cpu", 3.0), ("memory", 5.0)))
    assert (kept.idle[0, at], kept.future[0, at], kept.used[0, at]) == (1000, 1000, 3000)
    kept.occupy("n0", (("cpu", 1.0),))
    assert kept.idle[0, at] == 3000
    group, tasks = gang(0, 4, 1, 0, 0, "a")
    admit(kept, group, tasks)
    bound = carry_out(kept, 0.0)
    assert len(bound) == 3
    end(kept, [task.uid for task in tasks])
    assert kept.nodes_of_others() == [0]
    kept.occupy("n0", ())
    assert kept.nodes_of_others() == []
    assert_same(kept, Cluster(kept.snapshot_now()))


def test_what_others_take_outlasts_forgetting_and_other_nodes() -> None:
    kept = KeptCluster(start(8))
    kept.occupy("n0", (("cpu", 4.0),))
    for i in range(150):
        admit(kept, *gang(i, 2, 2, 0, 0, "a"))
        bound = carry_out(kept, 0.0)
        end(kept, bound)
        assert bound
        kept.set_nodes([machine(f"n{at}") for at in range(8 - i % 2)])
    assert len(kept.status) < 150
    at = kept.dims.index["cpu"]
    assert list(kept.idle[:, at]) == [0, *[4000] * 6]


def test_members_evicted_before_and_by_the_last_plan_leave_together() -> None:
    kept = KeptCluster(start(1))
    group, tasks = gang(0, 2, 1, 0, 0, "a")
    admit(kept, group, tasks)
    carry_out(kept, 0.0)
    first, second = (task.uid for task in tasks)
    kept.stand(group.uid, [Standing(first, j.RELEASING, "n0", 0.0)])
    kept.evict(kept.task_uid.index(second))  # as a plan does
    standings = [Standing(uid, j.RELEASING, "n0", 0.0) for uid in (first, second)]
    kept.stand(group.uid, standings)
    assert_same(kept, Cluster(kept.snapshot_now()))


def test_quotas_of_a_known_queue_change() -> None:
    kept = KeptCluster(start(1))
    kept.set_queues([QueueSpec(name="a", weight=7, capability=(("cpu", 1.0),)), kept.queues[1]])
    assert [q.weight for q in kept.queues] == [7, 3]
    assert {q.name: q.weight for q in kept.snapshot_now().queues} == {"a": 7, "b": 3}
    with pytest.raises(NotPatchableError, match="gpu, which nothing here has"):
        kept.set_queues([QueueSpec(name="a", deserved=(("gpu", 1.0),)), kept.queues[1]])


def test_forgets_what_is_over() -> None:
    kept = KeptCluster(start(8))
    for i in range(200):
        group, tasks = gang(i, 2, 2, 0, 0, "a")
        admit(kept, group, tasks)
        assert set(carry_out(kept, 0.0)) == {t.uid for t in tasks}
        end(kept, [t.uid for t in tasks])
    assert len(kept.status) < 150
    assert kept.jobs == []
    assert_same(kept, Cluster(kept.snapshot_now()))


def test_amended_podgroups_say_it() -> None:
    kept = KeptCluster(start(1))
    group, tasks = gang(0, 1, 1, 0, 0, "a")
    admit(kept, group, tasks)
    kept.put_group(msgspec.structs.replace(group, run_time_s=7.0, turn=3))
    assert kept.jobs[0].spec.run_time_s == 7.0
    assert kept.snapshot_now().podgroups[0].turn == 3


def test_refuses_what_it_cannot_keep() -> None:
    domain = HyperNodeSpec(name="rack", tier=1, nodes=("n0",))
    with pytest.raises(NotPatchableError, match="network domains"):
        KeptCluster(start(1, hypernodes=(domain,)))
    kept = KeptCluster(start(1))
    with pytest.raises(NotPatchableError, match="queue 'nobody'"):
        kept.put_group(PodGroupSpec(name="g", queue="nobody"))
    with pytest.raises(NotPatchableError, match="topology"):
        kept.put_group(PodGroupSpec(name="g", queue="a", topology=NetworkTopology()))
    kept.put_group(PodGroupSpec(name="g", queue="a"))
    odd = TaskSpec(name="t", podgroup="g", shape=Shape(request=(("gpu", 1.0),)))
    with pytest.raises(NotPatchableError, match=r"default/t asks for gpu"):
        kept.add_rows([odd])
    admit(kept, *gang(0, 1, 1, 0, 0, "a"))
    carry_out(kept, 0.0)
    with pytest.raises(NotPatchableError, match="node that is gone"):
        kept.set_nodes([])
    with pytest.raises(NotPatchableError, match="queue that is gone"):
        kept.set_queues([QueueSpec(name="b")])
    with pytest.raises(NotPatchableError, match="nothing has a resource any more"):
        KeptCluster(start(1)).set_nodes([NodeSpec(name="n0", capacity=(("cpu", 1.0),))])


def test_podgroups_come_where_no_node_is() -> None:
    kept = KeptCluster(msgspec.structs.replace(start(1), nodes=()))
    admit(kept, *gang(0, 2, 1, 0, 0, "a"))
    assert carry_out(kept, 0.0) == []
    assert_same(kept, Cluster(kept.snapshot_now()))


def by_the_heads_rules(kept: KeptCluster, i: int) -> bool:
    """Add one gang of one task, and run a cycle as a head does; return whether the gang got its
    place.
    """
    group, (task,) = gang(i, 1, 1, 0, 0, "a")
    admit(kept, group, [task])
    plan = run_cycle(Snapshot(config=configuration()), cluster=kept, explains=False)
    kept.take_back(plan)
    for uid, node in plan.binds.items():
        kept.stand(group.uid, [Standing(uid, j.RUNNING, node, 1.0)])
    return task.uid in plan.binds


def test_what_a_head_knows_of_nodes_outlasts_a_cycle() -> None:
    queues = (QueueSpec(name="root"), QueueSpec(name="a"))
    kept = KeptCluster(msgspec.structs.replace(start(2), config=configuration(), queues=queues))
    assert by_the_heads_rules(kept, 0)
    (known,) = kept.answers.values()
    assert by_the_heads_rules(kept, 1)
    assert list(kept.answers.values()) == [known], "it was made anew"


def test_a_head_goes_by_a_queues_new_quota() -> None:
    root, queue = QueueSpec(name="root"), QueueSpec(name="a", capability=(("cpu", 1.0),))
    snapshot = msgspec.structs.replace(start(2), config=configuration(), queues=(root, queue))
    kept = KeptCluster(snapshot)
    assert by_the_heads_rules(kept, 0)
    assert not by_the_heads_rules(kept, 1)
    kept.set_queues([root, msgspec.structs.replace(queue, capability=(("cpu", 3.0),))])
    assert by_the_heads_rules(kept, 2)


def test_a_session_that_is_over_is_no_garbage_in_circles() -> None:
    queues = (QueueSpec(name="root"), QueueSpec(name="a"))
    kept = KeptCluster(msgspec.structs.replace(start(2), config=configuration(), queues=queues))
    gc.collect()
    with uncollected():
        assert by_the_heads_rules(kept, 0)
        assert not [one for one in gc.get_objects() if isinstance(one, Session)]
