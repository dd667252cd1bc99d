"""Ordinary tasks of drivers free resources for waiting gangs, in the order of priorities and
queues.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.polling import eventually
from tests.unit.node.leasing import Node

import phalanx
from phalanx.node.leases.queue import LONGEST_HOLD_S
from phalanx.protocol.bundle_messages import ClaimRoom

from .conftest import none_left

CPUS = 4
WAITING = 200


@pytest.fixture(scope="module")
def machine():
    phalanx.init(num_cpus=CPUS)
    phalanx.get(list(member.gang(1).remote()))  # what gangs need is read in before
    yield phalanx
    phalanx.shutdown()


@phalanx.remote
def short():
    time.sleep(0.02)


@phalanx.remote
def member():
    return os.environ["RANK"]


@contextlib.contextmanager
def flood(**options):
    """Keep all CPUs busy while the block runs. There are more tasks than the machine can run at a
    time, and each task that ends is replaced.
    """
    over = threading.Event()

    def made(count):
        return [short.options(**options).remote() for _ in range(count)]

    def go_on(refs):
        while not over.is_set():
            ended, refs = phalanx.wait(refs, num_returns=CPUS)
            refs += made(len(ended))
        return refs

    refs = made(WAITING)
    phalanx.wait(refs, num_returns=CPUS)
    with ThreadPoolExecutor(1) as threads:
        left = threads.submit(go_on, refs)
        try:
            yield
        finally:
            over.set()
    phalanx.get(left.result())  # and those go on


def test_a_gang_gets_the_room_that_ordinary_tasks_hold(machine, get):
    with flood():
        gang = member.gang(CPUS).remote()
        assert get(list(gang)) == [str(rank) for rank in range(CPUS)]
    eventually(none_left)


def test_a_higher_priority_of_tasks_goes_before_a_gang(machine, get):
    with flood(priority=5):
        gang = member.gang(CPUS).remote()
        assert not gang.wait_started(0.5)
        urgent = member.gang(CPUS, priority=6).remote()
        get(list(urgent))
    get(list(gang))
    eventually(none_left)


# ---- one node, which decides what is kept --------------------------------------------------------


def claim(node, cpus, *, group=b"gang", queue="", priority=0, seconds=2.0):
    needs = {"CPU": float(cpus)} if cpus else {}
    node.machine.claim(ClaimRoom(group, needs, queue, priority, seconds), node.now)


def busy(cpus=4, **options):
    """Return a node on which tasks of one owner hold all CPUs, and the owner wants more."""
    node = Node(CPU=cpus)
    node.want("a", count=cpus + 5, **options)
    node.now += LONGEST_HOLD_S * 2
    node.log.clear()
    return node


def dues(node):
    return node.log.count("due a")


def test_as_many_leases_are_due_as_a_gang_needs_and_what_comes_back_is_kept():
    node = busy()
    for _ in range(3):
        claim(node, 2)
    node.later(0.1)
    node.later(0.1)
    assert dues(node) == 2
    for lease in [x for x in node.leases("a") if x.is_due]:
        node.give_back(lease)
    assert len(node.leases("a")) == 2  # although it wants more
    assert node.resources.available()["CPU"] == 2


@pytest.mark.parametrize("end", ["taken back", "met", "late"])
def test_what_a_claim_kept_is_free_for_tasks_when_it_ends(end):
    node = busy()
    claim(node, 4)
    for _ in range(4):
        node.later(0.1)
    for lease in node.leases("a"):
        node.give_back(lease)
    assert node.leases() == []
    if end == "taken back":
        claim(node, 0)
    elif end == "met":
        node.machine.claims.end(b"gang")
    node.later(5.0 if end == "late" else 0.1)
    assert len(node.leases("a")) == 4


def test_tasks_of_a_higher_priority_neither_give_way_nor_wait():
    node = busy(priority=3)
    claim(node, 4, priority=2)
    node.later(0.1)
    assert dues(node) == 0
    node.give_back(node.leases("a")[0])
    assert len(node.leases("a")) == 4
    claim(node, 4, priority=4)
    node.later(0.1)
    assert dues(node) > 0


def test_actors_keep_what_they_have():
    node = Node(CPU=2)
    node.want("a", count=1, actor=b"actor")
    node.want("a", count=1, number=2)
    assert node.machine.yields().to_mapping() == {"CPU": 1.0}
    claim(node, 2)
    node.now += 1
    node.later(0.1)
    assert sum("due" in line for line in node.log) == 1
