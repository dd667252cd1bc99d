"""Which objects of other nodes are fetched, and what happens with those that cannot be reached."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.objects.pins import Pins
from phalanx.objects.pull_queue import AGAIN_S, GIVE_UP_S, PullQueue


class World:
    """A queue of objects to fetch, its running transfers, and the answers to those who waited."""

    def __init__(self, limit=100):
        self.moving: list[Any] = []
        self.told = []
        self.pins = Pins(lambda: self.queue.proceed())
        self.queue = PullQueue(limit, lambda name, size: self.moving.append(name), self.pins)

    def want(self, name, size=10, asker=b"p"):
        self.queue.want(name, size, asker, lambda failure: self.told.append((name, failure)))

    def end(self, name, failure=""):
        self.moving.remove(name)
        self.queue.ended(name, failure)

    def miss(self, name, now):
        self.moving.remove(name)
        self.queue.unreached(name, "no route", now)


@pytest.fixture
def world():
    world = World()
    world.want("a")
    world.miss("a", 0.0)
    return world


def test_each_is_fetched_once_and_those_who_waited_are_told():
    world = World()
    for _ in range(3):
        world.want("a")
    assert world.moving == ["a"]
    world.end("a")
    assert world.told == [("a", "")] * 3


def test_who_waits_is_not_told_of_a_node_that_cannot_be_reached_for_a_moment(world):
    world.queue.tick(AGAIN_S / 2)
    assert (world.moving, world.told) == ([], [])
    world.queue.tick(AGAIN_S)
    assert world.moving == ["a"]
    world.end("a")
    assert world.told == [("a", "")]


def test_it_is_given_up_after_a_while(world):
    now = 0.0
    while not world.told:
        now += AGAIN_S
        world.queue.tick(now)
        if world.moving:
            world.miss("a", now)
    assert world.told == [("a", "no route")]
    assert GIVE_UP_S <= now < GIVE_UP_S + 2 * AGAIN_S
    world.queue.tick(now + AGAIN_S)
    assert world.moving == []


def test_the_death_of_the_node_is_the_end_of_it(world):
    world.queue.fail_unreached(lambda name: name == "b")
    assert world.told == []
    world.queue.fail_unreached(lambda name: name == "a")
    assert world.told == [("a", "no route")]
    world.queue.tick(AGAIN_S)
    assert world.moving == []


def test_who_asks_meanwhile_has_it_tried_at_once_and_both_are_told(world):
    world.want("a")
    assert world.moving == ["a"]
    world.queue.tick(AGAIN_S)
    world.end("a")
    assert (world.moving, world.told) == ([], [("a", "")] * 2)


def test_what_nobody_waits_for_is_not_tried_again():
    world = World()
    world.queue.want_ahead("a", 10)
    world.miss("a", 0.0)
    world.queue.tick(AGAIN_S)
    assert world.moving == []


def test_what_waits_to_be_tried_again_lets_others_pass():
    world = World(limit=10)
    world.want("a")
    world.want("b")
    assert world.moving == ["a"]
    world.miss("a", 0.0)
    assert world.moving == ["b"]


def test_what_is_pinned_for_its_readers_holds_the_next_back():
    world = World(limit=25)
    world.pins.add("read", 10, b"p", 0.0)
    world.want("a")
    world.want("b")
    assert world.moving == ["a"]
    world.pins.done("read", b"p")
    assert world.moving == ["a", "b"]


def test_one_that_is_larger_than_the_limit_waits_for_its_turn_and_has_it():
    world = World(limit=5)
    world.pins.add("read", 1, b"p", 0.0)
    world.want("a")
    assert world.moving == []
    world.pins.done("read", b"p")
    assert world.moving == ["a"]


def test_who_gives_up_is_told_nothing_and_others_are():
    world = World(limit=10)
    world.want("a")
    world.want("a", asker=b"q")
    world.want("b")
    world.queue.unwanted("a", b"p")
    world.queue.unwanted("b", b"p")
    world.end("a")
    assert (world.moving, world.told) == ([], [("a", "")])


def test_for_a_process_that_ended_nothing_is_begun_or_tried_again():
    world = World(limit=10)
    world.want("a")
    world.want("b")
    world.want("c", asker=b"q")
    world.miss("a", 0.0)
    assert world.moving == ["b"]
    world.queue.process_gone(b"p")
    world.queue.tick(AGAIN_S)
    world.end("b")
    assert world.moving == ["c"]
    world.end("c")
    assert (world.moving, world.told) == ([], [("c", "")])
