"""Reservations between the scheduler and Ray: messages in every order. Needs no Ray."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.adapters.ray.scheduler.reservation import Amounts, Reservations, Row, Whole
from phalanx.model.ids import AttemptId, GroupId
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    CommitBundles,
    GiveBackBundles,
    PrepareBundles,
    Prepared,
)

A, B = b"node-a", b"node-b"
GANG = GroupId(b"gang")
GPU = {"GPU": 1.0}


class Recorded:
    """Records the requested effects in order."""

    def __init__(self) -> None:
        self.reserved: dict[AttemptId, list[tuple[bytes, Amounts]]] = {}
        self.withdrawn: list[AttemptId] = []
        self.heard: list[tuple[bytes, Any]] = []
        self.sent: list[tuple[bytes, Any]] = []
        self.rows: dict[AttemptId, Row] = {}
        self.attempts: dict[AttemptId, dict[bytes, dict[int, Amounts]]] = {}
        self.answered: set[bytes] = set()

    def whole(self, key: AttemptId) -> Whole | None:
        bundles = self.attempts.get(key)
        return Whole(bundles, bundles.keys() - self.answered) if bundles else None

    def reserve(self, key: AttemptId, bundles: list[tuple[bytes, Amounts]]) -> None:
        self.reserved[key] = bundles

    def withdraw(self, key: AttemptId) -> None:
        self.withdrawn.append(key)

    def deliver(self, prefix: bytes, message: Any) -> None:
        self.heard.append((prefix, message))

    def send(self, prefix: bytes, message: Any) -> None:
        self.sent.append((prefix, message))

    def keep(self, key: AttemptId, row: Row | None) -> None:
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row


@pytest.fixture
def ray() -> Recorded:
    return Recorded()


@pytest.fixture
def machine(ray: Recorded) -> Reservations:
    return Reservations(ray)


def asked(machine: Reservations, ray: Recorded, attempt: int = 1) -> None:
    """Request bundles 0 and 1 of one node, and 2 of another."""
    ray.attempts[GANG, attempt] = {A: {0: GPU, 1: GPU}, B: {2: GPU}}
    machine.outgoing(A, PrepareBundles(GANG, attempt, {0: GPU, 1: GPU}))
    machine.outgoing(B, PrepareBundles(GANG, attempt, {2: GPU}))


def placed(machine: Reservations, ray: Recorded) -> None:
    asked(machine, ray)
    for node in (A, B):
        machine.incoming(node, Prepared(GANG, 1, True))
    machine.granted((GANG, 1))


def given_back(machine: Reservations, node: bytes, indexes: list[int], attempt: int = 2) -> Any:
    machine.outgoing(node, GiveBackBundles(GANG, attempt, indexes))
    return machine.incoming(node, BundlesGone(GANG, attempt))


def test_the_last_answer_is_heard_when_ray_has_granted_all(
    ray: Recorded, machine: Reservations
) -> None:
    asked(machine, ray)
    assert ray.reserved == {(GANG, 1): [(A, GPU), (A, GPU), (B, GPU)]}
    assert ray.rows[GANG, 1].bundles == [(A, 0, 0), (A, 1, 1), (B, 2, 2)]
    first, last = Prepared(GANG, 1, True), Prepared(GANG, 1, True)
    assert machine.incoming(A, first) is first
    assert machine.incoming(B, last) is None
    assert machine.incoming(B, Prepared(GANG, 1, True)) is None, "it is asked again meanwhile"
    machine.granted((GANG, 1))
    assert ray.heard == [(B, last)]
    assert machine.places(GANG) == {0: (1, 0), 1: (1, 1), 2: (1, 2)}
    commit = CommitBundles(GANG, 1)
    machine.outgoing(A, commit)
    assert ray.reserved.keys() == {(GANG, 1)}


def test_nodes_that_answer_after_ray_are_heard_at_once(
    ray: Recorded, machine: Reservations
) -> None:
    asked(machine, ray)
    machine.granted((GANG, 1))
    assert not machine.places(GANG)
    for node in (A, B):
        answer = Prepared(GANG, 1, True)
        assert machine.incoming(node, answer) is answer
    assert machine.places(GANG) == {0: (1, 0), 1: (1, 1), 2: (1, 2)}
    assert not ray.heard


def test_bundles_of_a_node_that_is_not_connected_are_reserved_with_the_others(
    ray: Recorded, machine: Reservations
) -> None:
    ray.attempts[GANG, 1] = {A: {0: GPU}, B: {1: GPU}}
    machine.outgoing(A, PrepareBundles(GANG, 1, {0: GPU}))
    assert ray.reserved == {(GANG, 1): [(A, GPU), (B, GPU)]}
    machine.granted((GANG, 1))
    machine.incoming(A, Prepared(GANG, 1, True))
    assert not machine.places(GANG), "node B has not said anything"
    machine.outgoing(B, PrepareBundles(GANG, 1, {1: GPU}))
    machine.incoming(B, Prepared(GANG, 1, True))
    assert machine.places(GANG) == {0: (1, 0), 1: (1, 1)}


@pytest.mark.parametrize("answered", ([], [A], [A, B]))
def test_what_ray_refuses_is_heard_as_a_refusal_and_goes_back(
    ray: Recorded, machine: Reservations, answered: list[bytes]
) -> None:
    asked(machine, ray)
    for node in answered:
        machine.incoming(node, Prepared(GANG, 1, True))
    machine.refused((GANG, 1))
    node, indexes = (B, [2]) if answered else (A, [0, 1])
    assert ray.sent == [(node, GiveBackBundles(GANG, 1, indexes))]
    assert ray.heard == [(node, Prepared(GANG, 1, False))]
    assert machine.refusals(GANG) == 1
    assert not ray.rows
    assert not ray.withdrawn


def test_a_refusal_that_nobody_could_be_told_has_ray_asked_again(
    ray: Recorded, machine: Reservations
) -> None:
    asked(machine, ray)
    machine.incoming(B, Prepared(GANG, 1, True))
    machine.refused((GANG, 1))  # in the name of A, which is not connected: the attempt goes on
    ray.reserved.clear()
    ray.answered = {B}
    last = Prepared(GANG, 1, True)
    assert machine.incoming(A, last) is None
    assert ray.reserved.keys() == {(GANG, 1)}
    machine.granted((GANG, 1))
    assert ray.heard[-1] == (A, last)
    assert len(machine.places(GANG)) == 3


def test_a_node_that_refuses_has_ray_take_it_back(ray: Recorded, machine: Reservations) -> None:
    asked(machine, ray)
    refusal = Prepared(GANG, 1, False)
    assert machine.incoming(A, refusal) is refusal
    assert ray.withdrawn == [(GANG, 1)]
    del ray.attempts[GANG, 1]
    late = Prepared(GANG, 1, True)
    assert machine.incoming(B, late) is late
    machine.granted((GANG, 1))
    assert not machine.places(GANG)
    machine.freed((GANG, 1))
    assert not ray.rows


def test_an_attempt_that_ends_while_ray_works_is_withdrawn(
    ray: Recorded, machine: Reservations
) -> None:
    asked(machine, ray)
    machine.incoming(A, Prepared(GANG, 1, True))
    machine.incoming(B, Prepared(GANG, 1, True))
    machine.outgoing(A, GiveBackBundles(GANG, 2, [0, 1]))
    machine.outgoing(B, GiveBackBundles(GANG, 2, [2]))
    assert ray.withdrawn == [(GANG, 1)]
    machine.granted((GANG, 1))
    assert not ray.heard
    machine.freed((GANG, 1))
    assert not ray.rows


def test_the_last_bundle_is_heard_to_be_free_when_ray_shows_it(
    ray: Recorded, machine: Reservations
) -> None:
    placed(machine, ray)
    ray.heard.clear()
    assert given_back(machine, B, [2]) is not None, "others of the reservation go on"
    assert given_back(machine, A, [0, 1]) is None
    assert ray.withdrawn == [(GANG, 1)]
    assert machine.incoming(A, BundlesGone(GANG, 2)) is None, "it is asked again meanwhile"
    machine.freed((GANG, 1))
    assert ray.heard == [(A, BundlesGone(GANG, 2))]
    assert not ray.rows


def test_what_a_node_gives_back_one_after_another_is_gone_in_any_order(
    ray: Recorded, machine: Reservations
) -> None:
    placed(machine, ray)
    given_back(machine, B, [2])
    machine.outgoing(A, GiveBackBundles(GANG, 2, [0]))
    machine.outgoing(A, GiveBackBundles(GANG, 3, [1]))
    assert machine.incoming(A, BundlesGone(GANG, 2)) is not None
    assert machine.incoming(A, BundlesGone(GANG, 3)) is None
    assert ray.withdrawn == [(GANG, 1)]


def test_what_is_given_back_late_takes_nothing_that_came_there_since(
    ray: Recorded, machine: Reservations
) -> None:
    placed(machine, ray)
    given_back(machine, B, [2])
    ray.attempts[GANG, 3] = {B: {2: GPU}}
    machine.outgoing(B, PrepareBundles(GANG, 3, {2: GPU}))
    machine.incoming(B, Prepared(GANG, 3, True))
    machine.granted((GANG, 3))
    given_back(machine, B, [2])
    assert machine.places(GANG)[2] == (3, 0)
    assert not ray.withdrawn


def test_a_member_that_comes_back_has_a_reservation_of_its_own(
    ray: Recorded, machine: Reservations
) -> None:
    placed(machine, ray)
    given_back(machine, B, [2])
    ray.attempts[GANG, 3] = {A: {2: GPU}}
    machine.outgoing(A, PrepareBundles(GANG, 3, {2: GPU}))
    assert machine.incoming(A, Prepared(GANG, 3, True)) is None
    machine.granted((GANG, 3))
    assert machine.places(GANG) == {0: (1, 0), 1: (1, 1), 2: (3, 0)}
    given_back(machine, A, [2], attempt=4)
    assert ray.withdrawn == [(GANG, 3)]


def test_a_dead_nodes_bundles_are_gone_and_the_others_stay(
    ray: Recorded, machine: Reservations
) -> None:
    placed(machine, ray)
    machine.node_dead(A)
    assert not ray.withdrawn
    assert machine.places(GANG) == {2: (1, 2)}
    machine.node_dead(B)
    assert ray.withdrawn == [(GANG, 1)]


def test_a_node_that_dies_while_ray_works_has_the_rest_withdrawn(
    ray: Recorded, machine: Reservations
) -> None:
    asked(machine, ray)
    machine.incoming(B, Prepared(GANG, 1, True))
    machine.node_dead(A)
    assert ray.withdrawn == [(GANG, 1)]
    machine.granted((GANG, 1))
    assert not machine.places(GANG)


def test_a_node_that_joins_with_nothing_has_lost_it(ray: Recorded, machine: Reservations) -> None:
    placed(machine, ray)
    machine.joined(A, {(GANG, 0), (GANG, 1)})
    machine.joined(B, {(GANG, 2)})
    assert len(machine.places(GANG)) == 3
    machine.joined(A, {(GANG, 1)})
    machine.joined(B, set())
    assert machine.places(GANG) == {1: (1, 1)}
    machine.joined(A, set())
    assert ray.withdrawn == [(GANG, 1)]


def test_bundles_that_ask_for_nothing_are_none_of_rays(
    ray: Recorded, machine: Reservations
) -> None:
    bundles: dict[int, Amounts] = {0: {}, 1: GPU, 2: {"CPU": 0.0}}
    ray.attempts[GANG, 1] = {A: bundles}
    machine.outgoing(A, PrepareBundles(GANG, 1, bundles))
    machine.incoming(A, Prepared(GANG, 1, True))
    assert ray.reserved == {(GANG, 1): [(A, GPU)]}
    machine.granted((GANG, 1))
    assert machine.places(GANG) == {0: (1, -1), 1: (1, 0), 2: (1, -1)}
