"""Queues take back from each other at the control store: what comes to rest, and how."""

from __future__ import annotations

import pytest

from .head_world import World


def test_two_queues_that_each_want_more_than_their_half_do_not_take_turns():
    world = World(cpus=4)
    world.queue("a")
    world.queue("b")
    world.gang("first", "a", members=2, cpus=2)
    world.rounds(5)
    world.gang("second", "b", members=2, cpus=2)
    world.rounds()
    assert (world.running(), world.preempted) == (["first"], [])


def test_who_is_evicted_waits_until_the_other_has_started():
    world = World(cpus=8)
    world.queue("small", weight=1)
    world.queue("large", weight=5)
    world.gang("borrower", "small", members=1, cpus=3)
    world.rounds(5)
    world.gang("owner", "large", members=2, cpus=3)
    world.rounds()
    assert (world.running(), world.preempted) == (["owner"], ["borrower"])


@pytest.mark.parametrize("mine", [1, 2])
def test_a_queue_keeps_what_it_deserves(mine):
    world = World(cpus=4)
    world.queue("a")
    world.queue("b")
    world.gang("first", "a", members=1, cpus=mine)
    world.rounds(5)
    world.gang("second", "b", members=1, cpus=4)
    world.rounds()
    assert (world.running(), world.preempted) == (["first"], [])


def test_what_was_lent_is_taken_back():
    world = World(cpus=4)
    world.queue("a")
    world.queue("b")
    world.gang("first", "a", members=1, cpus=4)
    world.rounds(5)
    world.gang("second", "b", members=1, cpus=2)
    world.rounds()
    assert (world.running(), world.preempted) == (["second"], ["first"])
