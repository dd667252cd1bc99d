"""Owners that cannot be reached for now are dialled again until they answer or are known to be
dead.
"""

from __future__ import annotations

import pytest

from phalanx.owner.peers.redialling import BORROWER_DIALS_S, DIAL_AGAIN_S, GIVE_UP_S, Redialling
from phalanx.protocol.messages import Borrow, Fetch

NODE = b"nodeee"
OWNER = NODE + b"owner-0001"
WHY = "nothing listens at h:1"


class World:
    """A process that dials an owner. The test says whether a dial succeeds. `said` has the messages
    that reached the owner.
    """

    def __init__(self):
        self.dials = 0
        self.said = []
        self.given_up = []
        self.is_up = False
        self.way = []
        self.redialling = Redialling(self.dial, lambda process: self.is_up, self.give_up)

    def dial(self, process):
        self.dials += 1
        self.way = self.redialling.unsent(process)
        if self.is_up:
            self.said += self.way

    def give_up(self, process, reason):
        self.given_up.append((process, reason))

    def refuse(self, now, *messages):
        self.redialling.refused(OWNER, [*self.way, *messages], WHY, now)


@pytest.fixture
def world():
    world = World()
    world.refuse(0.0, Borrow([1]), Fetch(1))
    return world


def test_what_was_for_it_arrives_in_order_once_it_is_there(world):
    world.redialling.tick(DIAL_AGAIN_S / 2)
    assert world.dials == 0
    world.redialling.tick(DIAL_AGAIN_S)
    world.refuse(1.0, Fetch(2))
    world.is_up = True
    world.redialling.tick(1.0 + DIAL_AGAIN_S)
    assert world.said == [Borrow([1]), Fetch(1), Fetch(2)]
    world.redialling.tick(2.0)
    assert (world.dials, len(world.redialling), world.given_up) == (2, 0, [])


def test_it_is_given_up_after_a_while_and_the_last_reason_is_told(world):
    now = 0.0
    while not world.given_up:
        now += DIAL_AGAIN_S
        before = world.dials
        world.redialling.tick(now)
        if world.dials > before:
            world.refuse(now)
    assert world.given_up == [(OWNER, WHY)]
    assert GIVE_UP_S <= now < GIVE_UP_S + 2 * DIAL_AGAIN_S
    assert len(world.redialling) == 0


def test_time_counts_anew_after_it_was_reached(world):
    world.is_up = True
    world.redialling.tick(DIAL_AGAIN_S)
    world.redialling.tick(1.0)
    world.is_up = False
    world.refuse(2 * GIVE_UP_S)
    world.redialling.tick(2 * GIVE_UP_S + DIAL_AGAIN_S)
    assert (world.dials, world.given_up) == (2, [])


def test_the_death_of_its_node_is_the_end_of_it(world):
    world.redialling.node_died(b"others")
    assert world.given_up == []
    world.redialling.node_died(NODE)
    assert world.given_up == [(OWNER, "")]
    world.redialling.tick(GIVE_UP_S)
    assert world.dials == 0


def test_nothing_is_told_twice_of_a_process_that_is_gone(world):
    world.redialling.forget(OWNER)
    world.redialling.tick(GIVE_UP_S)
    assert (world.dials, world.given_up) == (0, [])


def test_a_connection_that_ended_is_dialled_when_it_is_due():
    world = World()
    world.is_up = True
    world.redialling.ended(OWNER, BORROWER_DIALS_S)
    world.redialling.tick(BORROWER_DIALS_S / 2)
    assert world.dials == 0
    world.redialling.tick(BORROWER_DIALS_S)
    assert world.dials == 1
    world.redialling.tick(BORROWER_DIALS_S + 1)
    assert (world.dials, len(world.redialling)) == (1, 0)


def test_who_was_dialled_by_the_other_side_does_not_dial():
    world = World()
    world.redialling.ended(OWNER, BORROWER_DIALS_S)
    world.is_up = True
    assert world.redialling.unsent(OWNER) == []  # its connection begins
    world.redialling.tick(BORROWER_DIALS_S)
    assert (world.dials, len(world.redialling)) == (0, 0)


def test_a_connection_that_ended_and_cannot_be_made_is_given_up():
    world = World()
    world.redialling.ended(OWNER, DIAL_AGAIN_S)
    now = 0.0
    while not world.given_up:
        now += DIAL_AGAIN_S
        before = world.dials
        world.redialling.tick(now)
        if world.dials > before:
            world.refuse(now)
    assert world.given_up == [(OWNER, WHY)]
    assert now >= GIVE_UP_S


def test_a_connection_that_ends_again_is_dialled_again():
    world = World()
    world.redialling.ended(OWNER, DIAL_AGAIN_S)
    world.redialling.tick(DIAL_AGAIN_S)
    world.redialling.ended(OWNER, 1.0)
    world.redialling.tick(1.0)
    assert world.dials == 2
