"""Resources that a node keeps free for gangs, and its answer to an order whose handling failed."""

from __future__ import annotations

from phalanx.errors import SystemFailureError
from phalanx.model.exit_codes import NOT_STARTED
from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.node.claims import Claims
from phalanx.node.failed_orders import refusal
from phalanx.protocol.actor_messages import ActorRefused, PlaceActor
from phalanx.protocol.bundle_messages import (
    ClaimRoom,
    GiveBackBundles,
    MemberNews,
    PrepareBundles,
    Prepared,
    StartMember,
)
from phalanx.protocol.wire_errors import code_of

A, B = GangId(GroupId(b"a" * 18)), GangId(GroupId(b"b" * 18))


def claim(group: GangId, seconds: float = 10.0, cpus: float = 1.0) -> ClaimRoom:
    return ClaimRoom(group, {"CPU": cpus}, "q", 2, seconds)


def test_a_claim_that_is_made_again_keeps_its_turn_and_has_the_newest_needs() -> None:
    claims = Claims()
    claims.set(claim(A), 0.0)
    claims.set(claim(B), 0.0)
    claims.set(claim(A, cpus=3.0), 5.0)
    first, second = sorted(claims.all(), key=lambda demand: demand.order)
    assert (first.owner, second.owner) == (A, B)
    assert (first.place.to_mapping(), first.queue, first.priority) == ({"CPU": 3.0}, "q", 2)


def test_a_claim_ends_when_it_is_not_made_again_in_time_or_taken_back() -> None:
    claims = Claims()
    claims.set(claim(A), 0.0)
    claims.set(claim(B), 5.0)
    assert not claims.tick(9.9)
    assert claims.tick(10.0)
    assert [demand.owner for demand in claims.all()] == [B]
    claims.set(ClaimRoom(B, {}), 11.0)
    claims.end(A)
    assert claims.all() == []
    assert not claims.tick(100.0)


def test_an_order_that_a_node_failed_at_is_answered_so_that_nobody_waits() -> None:
    error = ValueError("x" * 1000)
    reason = f"an internal error on its node: ValueError: {error}"[:300]
    assert refusal(PrepareBundles(A, 3, {0: {"CPU": 1.0}}), error) == Prepared(A, 3, False)
    start = StartMember(A, 2, 3, JobId("j"), "m", [], [], {}, 1.0)
    assert refusal(start, error) == MemberNews(A, 2, 3, NOT_STARTED, reason)
    place = PlaceActor(b"actor", 0, b"j", b"", "", "", {}, {}, b"", {}, 0)
    assert refusal(place, error) == ActorRefused(b"actor", reason, code_of(SystemFailureError))
    assert refusal(GiveBackBundles(A, 3, [0], False), error) is None
