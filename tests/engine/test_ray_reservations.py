"""Between the control store and Ray: what is heard when. Needs no Ray."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.engines.ray.scheduler.reservation import Amounts, Key, Reservations, Row
from phalanx.protocol.cluster_messages import (
    BundlesGone,
    CommitBundles,
    GiveBackBundles,
    PrepareBundles,
    Prepared,
)

A, B = b"node-a", b"node-b"
GANG = b"gang"
GPU = {"GPU": 1.0}


class Recorded:
    """Effects by what was asked for, in order."""

    def __init__(self) -> None:
        self.reserved: dict[Key, list[tuple[bytes, Amounts]]] = {}
        self.withdrawn: list[Key] = []
        self.heard: list[tuple[bytes, Any]] = []
        self.sent: list[tuple[bytes, Any]] = []
        self.rows: dict[Key, Row] = {}

    def reserve(self, key: Key, bundles: list[tuple[bytes, Amounts]]) -> None:
        self.reserved[key] = bundles

    def withdraw(self, key: Key) -> None:
        self.withdrawn.append(key)

    def deliver(self, prefix: bytes, message: Any) -> None:
        self.heard.append((prefix, message))

    def send(self, prefix: bytes, message: Any) -> None:
        self.sent.append((prefix, message))

    def keep(self, key: Key, row: Row | None) -> None:
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


def asked(machine: Reservations, attempt: int = 1) -> None:
    """Two nodes are asked for bundles 0 and 1, and 2."""
    machine.outgoing(A, PrepareBundles(GANG, attempt, {0: GPU, 1: GPU}))
    machine.outgoing(B, PrepareBundles(GANG, attempt, {2: GPU}))


def placed(machine: Reservations) -> None:
    asked(machine)
    for node in (A, B):
        machine.incoming(node, Prepared(GANG, 1, True))
    machine.granted((GANG, 1))


def given_back(machine: Reservations, node: bytes, indexes: list[int], attempt: int = 2) -> Any:
    machine.outgoing(node, GiveBackBundles(GANG, attempt, indexes))
    return machine.incoming(node, BundlesGone(GANG, attempt))


def test_the_last_answer_is_heard_when_ray_has_granted_all(
    ray: Recorded, machine: Reservations
) -> None:
    asked(machine)
    first, last = Prepared(GANG, 1, True), Prepared(GANG, 1, True)
    assert machine.incoming(A, first) is first
    assert not ray.reserved
    assert machine.incoming(B, last) is None
    assert ray.reserved == {(GANG, 1): [(A, GPU), (A, GPU), (B, GPU)]}
    assert ray.rows[GANG, 1].bundles == [(A, 0, 0), (A, 1, 1), (B, 2, 2)]
    assert machine.incoming(B, Prepared(GANG, 1, True)) is None, "it is asked again meanwhile"
    machine.granted((GANG, 1))
    assert ray.heard == [(B, last)]
    assert machine.places(GANG) == {0: (1, 0), 1: (1, 1), 2: (1, 2)}
    commit = CommitBundles(GANG, 1)
    machine.outgoing(A, commit)
    assert ray.reserved.keys() == {(GANG, 1)}


def test_what_ray_refuses_is_heard_as_a_refusal_and_goes_back(
    ray: Recorded, machine: Reservations
) -> None:
    asked(machine)
    machine.incoming(A, Prepared(GANG, 1, True))
    machine.incoming(B, Prepared(GANG, 1, True))
    machine.refused((GANG, 1))
    assert ray.sent == [(B, GiveBackBundles(GANG, 1, [2]))]
    assert ray.heard == [(B, Prepared(GANG, 1, False))]
    assert machine.refusals(GANG) == 1
    assert not ray.rows
    assert not ray.withdrawn


def test_a_node_that_refuses_has_ray_asked_for_nothing(
    ray: Recorded, machine: Reservations
) -> None:
    asked(machine)
    refusal = Prepared(GANG, 1, False)
    assert machine.incoming(A, refusal) is refusal
    late = Prepared(GANG, 1, True)
    assert machine.incoming(B, late) is late
    assert not ray.reserved


def test_an_attempt_that_ends_while_ray_works_is_withdrawn(
    ray: Recorded, machine: Reservations
) -> None:
    asked(machine)
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
    placed(machine)
    ray.heard.clear()
    assert given_back(machine, B, [2]) is not None, "others of the reservation go on"
    assert given_back(machine, A, [0, 1]) is None
    assert ray.withdrawn == [(GANG, 1)]
    assert machine.incoming(A, BundlesGone(GANG, 2)) is None, "it is asked again meanwhile"
    machine.freed((GANG, 1))
    assert ray.heard == [(A, BundlesGone(GANG, 2))]
    assert not ray.rows


def test_a_member_that_comes_back_has_a_reservation_of_its_own(
    ray: Recorded, machine: Reservations
) -> None:
    placed(machine)
    given_back(machine, B, [2])
    machine.outgoing(A, PrepareBundles(GANG, 3, {2: GPU}))
    assert machine.incoming(A, Prepared(GANG, 3, True)) is None
    machine.granted((GANG, 3))
    assert machine.places(GANG) == {0: (1, 0), 1: (1, 1), 2: (3, 0)}
    given_back(machine, A, [2], attempt=4)
    assert ray.withdrawn == [(GANG, 3)]


def test_a_dead_nodes_bundles_are_gone_and_the_others_stay(
    ray: Recorded, machine: Reservations
) -> None:
    placed(machine)
    machine.node_dead(A)
    assert not ray.withdrawn
    assert machine.places(GANG) == {2: (1, 2)}
    machine.node_dead(B)
    assert ray.withdrawn == [(GANG, 1)]


def test_a_node_that_joins_with_nothing_has_lost_it(ray: Recorded, machine: Reservations) -> None:
    placed(machine)
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
    machine.outgoing(A, PrepareBundles(GANG, 1, {0: {}, 1: GPU, 2: {"CPU": 0.0}}))
    machine.incoming(A, Prepared(GANG, 1, True))
    assert ray.reserved == {(GANG, 1): [(A, GPU)]}
    machine.granted((GANG, 1))
    assert machine.places(GANG) == {0: (1, -1), 1: (1, 0), 2: (1, -1)}
