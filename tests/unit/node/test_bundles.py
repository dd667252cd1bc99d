"""Bundles and idle workers on one node: no bundle gives more than it reserved."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.present import present

from phalanx.node.bundle_pool import BundlePool
from phalanx.node.workers import IDLE_S, WorkerPool
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet

amounts = ResourceSet.from_mapping


@pytest.fixture
def node():
    return NodeResources({"CPU": 4, "GPU": 2})


def test_a_bundle_shows_the_nodes_own_device_numbers(node):
    node.acquire(amounts({"GPU": 1}))
    pool = BundlePool(present(node.acquire(amounts({"GPU": 1}))))
    assert present(pool.acquire(amounts({"GPU": 1}))).instances["GPU"] == ((1, SCALE),)
    assert pool.acquire(amounts({"GPU": 0.1})) is None


def test_a_bundle_with_part_of_a_device_gives_no_more_than_that(node):
    pool = BundlePool(node.acquire(amounts({"GPU": 0.5})))
    taken = pool.acquire(amounts({"GPU": 0.3}))
    assert taken is not None
    assert pool.acquire(amounts({"GPU": 0.3})) is None
    assert pool.acquire(amounts({"GPU": 0.2})) is not None
    pool.release(taken)
    assert pool.can_now(amounts({"GPU": 0.3}))


@given(st.data())
def test_a_bundle_never_gives_more_than_it_reserved(data):
    shape = data.draw(st.sampled_from([{"CPU": 2, "GPU": 2}, {"GPU": 0.5}, {"CPU": 3, "x": 2}]))
    node = NodeResources({"CPU": 4, "GPU": 2, "x": 5})
    pool = BundlePool(present(node.acquire(amounts(shape))))
    taken: list[Any] = []
    for _ in range(12):
        if taken and data.draw(st.booleans()):
            pool.release(taken.pop(data.draw(st.integers(0, len(taken) - 1))))
            continue
        asked = data.draw(
            st.dictionaries(st.sampled_from(["CPU", "GPU", "x"]), st.sampled_from([0.2, 0.5, 1]))
        )
        request = amounts(asked)
        could = pool.can_now(request)
        got = pool.acquire(request)
        assert (got is not None) == could
        if got is not None:
            taken.append(got)
        held = sum((t.resources for t in taken), ResourceSet())
        assert held.is_subset(amounts(shape))
    for allocation in taken:
        pool.release(allocation)
    assert pool.can_now(amounts(shape))


# ---- workers ---------------------------------------------------------------------------------


@pytest.fixture
def pool():
    count = itertools.count(1)
    return WorkerPool(2, lambda job: next(count).to_bytes(12, "big") + job)


def idle(pool, job, now, environment=b""):
    worker = pool.new(job, environment)
    pool.ready(worker.worker_id, 1, now)
    pool.put_back(worker, now)
    return worker


def test_the_most_recently_used_goes_first(pool):
    first, second = idle(pool, b"j", 0), idle(pool, b"j", 1)
    assert pool.take(b"j", b"") is second
    assert pool.take(b"j", b"") is first
    assert pool.take(b"j", b"").is_ready is False, "a new record"


def test_a_worker_serves_one_job_and_environment(pool):
    mine = idle(pool, b"j", 0)
    assert pool.take(b"k", b"") is not mine
    assert pool.take(b"j", b"e") is not mine
    assert pool.of_job(b"k")[0].job == b"k"


def test_what_leaves_or_is_gone_is_not_taken(pool):
    leaving, gone = pool.new(b"j"), idle(pool, b"j", 0)
    leaving.is_leaving = True
    pool.put_back(leaving, 0)
    assert pool.remove(gone.worker_id) is gone
    pool.put_back(gone, 0)
    assert pool.take(b"j", b"") not in (leaving, gone)
    assert pool.remove(gone.worker_id) is None


def test_idle_ones_above_the_limit_end_after_a_while_oldest_first(pool):
    workers = [idle(pool, b"j", i / 100) for i in range(4)]
    assert pool.surplus(IDLE_S) == []
    assert pool.surplus(IDLE_S + 1) == workers[:2]
    assert pool.surplus(IDLE_S + 9) == []
    assert all(w.is_leaving for w in workers[:2])


def test_one_that_is_not_up_yet_is_no_surplus(pool):
    for _ in range(5):
        pool.prestart(b"j")
    assert pool.surplus(100.0) == []
    assert pool.take(b"j", b"").is_started
