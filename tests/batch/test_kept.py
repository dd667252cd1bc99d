"""A kept cluster stays what reading the same state would give, whatever happens to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from phalanx.batch import jobs as j
from phalanx.batch import kept as module
from phalanx.batch.cluster import Cluster
from phalanx.batch.config import parse_volcano
from phalanx.batch.cycle import run_cycle
from phalanx.batch.kept import KeptCluster
from phalanx.batch.registry import known_plugins
from phalanx.batch.specs import (
    HyperNodeSpec,
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


def start(nodes: int, *, hypernodes: tuple[HyperNodeSpec, ...] = ()) -> Snapshot:
    capacity = (("cpu", 4.0), ("memory", 4e9), ("pods", 9.0))
    return Snapshot(
        config=CONFIG,
        nodes=tuple(NodeSpec(name=f"n{i}", capacity=capacity) for i in range(nodes)),
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


BOOKS = ("idle", "future", "used", "releasing", "promised")
SCORED = ("asked", "weighed", "seats")
"""Columns from which evicted tasks are gone at once; who reads a snapshot counts them."""


def snapshot_now(kept: KeptCluster, *, whole: bool = False) -> Snapshot:
    """What is kept, as a snapshot; podgroups that are over are left out unless `whole`."""
    live = [job for job in kept.jobs if whole or not module._is_over(job)]
    keep = {-1, *(job.index for job in live)}
    return msgspec.structs.replace(
        kept.snapshot,
        podgroups=(
            *(msgspec.structs.replace(job.spec, phase=job.phase) for job in live),
            *kept.strays,
        ),
        tasks=tuple(task for task, job in zip(kept.tasks, kept.job_of, strict=True) if job in keep),
    )


def assert_same(kept: KeptCluster, columns: tuple[str, ...] = (*BOOKS, *SCORED)) -> None:
    """Column by column; names give the places, since what came later stands later."""
    read = Cluster(snapshot_now(kept, whole=True))
    for name in columns:
        assert np.array_equal(getattr(kept, name), getattr(read, name)), name
    for column in ("status", "node_of"):
        mine = dict(zip(kept.task_uid, getattr(kept, column), strict=True))
        assert mine == dict(zip(read.task_uid, getattr(read, column), strict=True)), column
    assert np.array_equal(kept.held_in_queue, read.held_in_queue)
    for job in kept.jobs:
        twin = read.jobs[read.job_index[job.uid]]
        assert job.counts == twin.counts
        assert (job.eq_class and job.eq_class.shape) == (twin.eq_class and twin.eq_class.shape)
        assert list(job.held) == list(twin.held)
        assert list(job.total_request) == list(twin.total_request)
        assert job.role_counts == twin.role_counts
        assert job.phase == twin.phase
        assert [kept.task_uid[t] for t in job.tasks] == [read.task_uid[t] for t in twin.tasks]
        assert set(job.subjobs) == set(twin.subjobs)


SMALL = st.integers(0, 2)
STEP = st.tuples(st.integers(0, 4), st.integers(1, 4), SMALL, SMALL, st.sampled_from("ab"))


@pytest.fixture(scope="module", params=[0, 64], ids=["forgets at once", "seldom forgets"])
def spare(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SPARE", request.param)
        yield


@pytest.mark.usefixtures("spare")
@settings(max_examples=examples(60))
@given(st.integers(1, 4), st.lists(st.lists(STEP, max_size=3), min_size=1, max_size=6), st.data())
def test_stays_as_read(nodes: int, steps: list[Any], data: st.DataObject) -> None:
    kept = KeptCluster(start(nodes))
    made = 0
    for now, step in enumerate(steps):
        running = [u for u, s in zip(kept.task_uid, kept.status, strict=True) if s == j.RUNNING]
        through = [u for u in running if data.draw(st.booleans())]
        kept.end(through)
        for size, least, shape, priority, queue in step:
            size = max(size, 1)
            group, tasks = gang(made, size, min(least, size), shape, priority, queue)
            kept.admit([group], tasks)
            made += 1
        left = [u for u in running if u not in through]
        kept.withdraw([u for u in left if data.draw(st.integers(0, 5)) == 0])
        assert_same(kept)
        snapshot = Snapshot(config=CONFIG, now=float(now))
        read = snapshot_now(kept)
        plan = run_cycle(snapshot, cluster=kept)
        again = run_cycle(read)
        assert plan.binds == again.binds
        assert plan.evicted == again.evicted
        assert plan.pipelined == again.pipelined
        kept.settle(plan, float(now))
        assert_same(kept)


@settings(max_examples=examples(40))
@given(st.lists(STEP, min_size=1, max_size=8), st.data())
def test_evicted_tasks_leave_until_they_are_released(steps: list[Any], data: st.DataObject) -> None:
    kept = KeptCluster(start(2))
    leaving: list[str] = []
    for made, (size, least, shape, priority, queue) in enumerate(steps):
        size = max(size, 1)
        group, tasks = gang(made, size, min(least, size), shape, priority, queue)
        kept.admit([group], tasks)
        plan = run_cycle(Snapshot(config=CONFIG), cluster=kept, explains=False)
        assert not plan.rejections
        kept.settle(plan, float(made), at_once=False)
        leaving += plan.evicted
        assert_same(kept, BOOKS)
        left = [uid for uid in leaving if data.draw(st.booleans())]
        kept.released(left)
        leaving = [uid for uid in leaving if uid not in left]
        assert_same(kept, BOOKS if leaving else (*BOOKS, *SCORED))


def test_what_others_take_is_not_free_until_they_take_less() -> None:
    kept = KeptCluster(start(1))
    at = kept.dims.index["cpu"]
    kept.occupy("n0", (("cpu", 3.0), ("memory", 5.0)))
    assert (kept.idle[0, at], kept.future[0, at], kept.used[0, at]) == (1000, 1000, 3000)
    kept.occupy("n0", (("cpu", 1.0),))
    assert kept.idle[0, at] == 3000
    group, tasks = gang(0, 4, 1, 0, 0, "a")
    kept.admit([group], tasks)
    plan = run_cycle(Snapshot(config=CONFIG), cluster=kept)
    assert len(plan.binds) == 3
    kept.settle(plan, 0.0)
    kept.end(plan.binds)
    kept.occupy("n0", ())
    assert_same(kept)


def test_what_others_take_outlasts_reading_it_anew() -> None:
    kept = KeptCluster(start(8))
    kept.occupy("n0", (("cpu", 4.0),))
    for i in range(150):
        group, tasks = gang(i, 2, 2, 0, 0, "a")
        kept.admit([group], tasks)
        plan = run_cycle(Snapshot(config=CONFIG), cluster=kept)
        kept.settle(plan, 0.0)
        kept.end(plan.binds)
        assert "n0" not in plan.binds.values()
    assert len(kept.jobs) < 150


def test_quotas_of_a_known_queue_change() -> None:
    kept = KeptCluster(start(1))
    kept.set_queue(QueueSpec(name="a", weight=7, capability=(("cpu", 1.0),)))
    assert [q.weight for q in kept.queues] == [7, 3]
    assert {q.name: q.weight for q in snapshot_now(kept).queues} == {"a": 7, "b": 3}
    with pytest.raises(ValueError, match="gpu, which nothing here has"):
        kept.set_queue(QueueSpec(name="a", deserved=(("gpu", 1.0),)))


def test_forgets_what_is_over() -> None:
    kept = KeptCluster(start(8))
    for i in range(200):
        group, tasks = gang(i, 2, 2, 0, 0, "a")
        kept.admit([group], tasks)
        plan = run_cycle(Snapshot(config=CONFIG), cluster=kept)
        kept.settle(plan, 0.0)
        assert set(plan.binds) == {t.uid for t in tasks}
        kept.end(plan.binds)
    assert len(kept.jobs) < 150
    assert_same(kept)


def test_amended_podgroups_tell_it() -> None:
    kept = KeptCluster(start(1))
    kept.admit(*[[x] if i == 0 else x for i, x in enumerate(gang(0, 1, 1, 0, 0, "a"))])
    kept.amend("default/g000", run_time_s=7.0, turn=3)
    assert kept.jobs[0].spec.run_time_s == 7.0
    assert snapshot_now(kept).podgroups[0].turn == 3


def test_refuses_what_it_cannot_keep() -> None:
    domain = HyperNodeSpec(name="rack", tier=1, nodes=("n0",))
    with pytest.raises(ValueError, match="network domains"):
        KeptCluster(start(1, hypernodes=(domain,)))
    kept = KeptCluster(start(1))
    with pytest.raises(ValueError, match="queue 'nobody'"):
        kept.admit([PodGroupSpec(name="g", queue="nobody")], [])
    kept.admit([PodGroupSpec(name="g", queue="a")], [])
    odd = TaskSpec(name="t", podgroup="g", shape=Shape(request=(("gpu", 1.0),)))
    with pytest.raises(ValueError, match=r"default/t asks for gpu"):
        kept.admit([], [odd])
