"""Tokens of people and robots, as the head handles them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from tests.world.clock import ManualClock
from tests.world.head import make_head

from phalanx.errors import AuthenticationError, JobCommandError, NotAllowedError
from phalanx.head.head import Head
from phalanx.head.rights.control import RightsSetup
from phalanx.head.rights.tokens import TokenRow, Tokens
from phalanx.head.state_store import StateStore
from phalanx.model.principals import TOKEN, UNIX, Principal, Role
from phalanx.protocol.requests.queues import CreateQueue, OpenQueue, QueueFields, UpdateQueue
from phalanx.protocol.requests.tokens import CreateToken, ListTokens, RevokeToken, RotateToken

from .test_rights_of_requests import Person

ID = "00112233445566aa"
HASH = hashlib.sha256(b"one").digest()
OTHER = hashlib.sha256(b"two").digest()
THIRD = hashlib.sha256(b"three").digest()


class Place:
    """A shared head, and the messages that it sends to its gateway."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000.0)
        self.told: list[dict[str, list[bytes]]] = []
        setup = RightsSetup(is_shared=True, owner="boss", know_tokens=self.told.append)
        self.head: Head = make_head(lambda prefix, message: None, self.clock, rights=setup)
        self.boss = Person(self.head, Principal(UNIX, "boss", "boss", is_owner=True))

    def holder(self, token_id: str = ID) -> Person:
        return Person(self.head, self.head.tokens.principal(token_id))


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_token_has_its_role_and_its_queues(place: Place) -> None:
    place.boss.ask(CreateQueue("lab", QueueFields(submit="token:ci")))
    place.boss.ask(UpdateQueue("default", QueueFields(submit="*")))
    place.boss.ask(CreateToken("ci", ID, HASH, "user", ["lab"]))
    assert place.told[-1] == {ID: [HASH]}
    ci = place.holder()
    ci.submit("one", queue="lab")
    spec = place.head.gang_scheduler.jobs.table.get("default/one")
    assert spec is not None and spec.spec.user == "ci"
    with pytest.raises(NotAllowedError, match="the token is for other queues than default"):
        ci.submit("two")
    with pytest.raises(NotAllowedError):
        ci.ask(OpenQueue("lab"))
    place.boss.ask(CreateToken("op", "f" * 16, OTHER, "operator"))
    place.holder("f" * 16).ask(OpenQueue("lab"))


def test_two_secrets_are_valid_after_a_rotation(place: Place) -> None:
    place.boss.ask(CreateToken("ci", ID, HASH))
    place.boss.ask(RotateToken("ci", OTHER))
    assert place.told[-1] == {ID: [OTHER, HASH]}
    assert [row.secrets for row in place.boss.ask(ListTokens())] == [2]
    place.boss.ask(RotateToken("ci", OTHER))
    assert place.told[-1] == {ID: [OTHER, HASH]}, "asked again"
    place.boss.ask(RotateToken("ci", THIRD))
    assert place.told[-1] == {ID: [THIRD, OTHER]}


def test_an_expiry_ends_open_connections_once(place: Place) -> None:
    place.boss.ask(CreateToken("ci", ID, HASH, expires=2_000.0))
    place.boss.ask(CreateToken("stays", "f" * 16, OTHER))
    place.head.on_tick(0.0)
    assert len(place.told) == 2 and place.head.tokens.expired() == []
    place.clock.time_s += 999.0
    place.head.on_tick(0.0)
    assert len(place.told) == 2
    place.clock.time_s += 1.0
    place.head.on_tick(0.0)
    place.head.on_tick(0.0)
    assert len(place.told) == 3 and place.head.tokens.expired() == [ID]
    assert ID in place.told[-1], "the holder still hears why"
    with pytest.raises(AuthenticationError, match="has expired"):
        place.holder().ask(ListTokens())


def test_a_restarted_head_ends_connections_of_tokens_that_expire_later() -> None:
    told: list[dict[str, list[bytes]]] = []
    clock = ManualClock(1_000.0)
    tokens = Tokens(StateStore(), clock.wall, told.append)
    tokens.restore([TokenRow(id=ID, name="ci", role="user", expires=1_500.0, hashes=(HASH,))])
    tokens.tick(0.0)
    assert not told
    clock.time_s += 500.0
    tokens.tick(0.0)
    assert tokens.expired() == [ID] and len(told) == 1


def test_a_revoked_token_has_no_right_at_all(place: Place) -> None:
    place.boss.ask(CreateToken("ci", ID, HASH))
    ci = place.holder()
    place.boss.ask(RevokeToken("ci"))
    assert place.told[-1] == {}
    with pytest.raises(AuthenticationError, match="revoked"):
        ci.ask(CreateQueue("q", QueueFields()))
    with pytest.raises(AuthenticationError):
        place.holder()
    with pytest.raises(JobCommandError, match="there is no token 'ci'"):
        place.boss.ask(RevokeToken("ci"))


def test_a_token_expires(place: Place) -> None:
    place.boss.ask(CreateToken("ci", ID, HASH, "admin", None, 2_000.0))
    ci = place.holder()
    ci.ask(CreateQueue("q", QueueFields()))
    place.clock.time_s = 2_000.0
    with pytest.raises(AuthenticationError, match="has expired"):
        ci.ask(CreateQueue("r", QueueFields()))


def test_the_last_use_is_noted(place: Place) -> None:
    place.boss.ask(CreateToken("ci", ID, HASH, "admin"))
    (row,) = place.boss.ask(ListTokens())
    assert row.last_used == 0.0 and not hasattr(row, "hashes")
    place.clock.time_s = 1_500.0
    place.holder().ask(CreateQueue("q", QueueFields()))
    (row,) = place.boss.ask(ListTokens())
    assert row.last_used == 1_500.0


@pytest.mark.parametrize(
    "request_",
    [
        CreateToken("ci", ID, HASH),
        CreateToken("a b", "b" * 16, HASH),
        CreateToken("@ml", "b" * 16, HASH),
        CreateToken("token:x", "b" * 16, HASH),
        CreateToken("*", "b" * 16, HASH),
        CreateToken("", "b" * 16, HASH),
        CreateToken("x", ID, HASH),
        CreateToken("x", "B" * 16, HASH),
        CreateToken("x", "b" * 15, HASH),
        CreateToken("x", "b" * 16, HASH[:-1]),
        CreateToken("x", "b" * 16, HASH, "root"),
        CreateToken("x", "b" * 16, HASH, "user", None, 1.0),
        CreateToken("x", "b" * 16, HASH, "user", None, float("nan")),
    ],
)
def test_odd_tokens_are_refused(place: Place, request_: Any) -> None:
    place.boss.ask(CreateToken("ci", ID, HASH))
    with pytest.raises(JobCommandError):
        place.boss.ask(request_)
    assert [row.name for row in place.boss.ask(ListTokens())] == ["ci"]


def test_only_admins_have_to_do_with_tokens(place: Place) -> None:
    ana = Person(place.head, Principal(UNIX, "ana", "ana"))
    place.head.roles.put("ana", "operator")
    for request in (CreateToken("x", ID, HASH), ListTokens(), RotateToken("x", HASH)):
        with pytest.raises(NotAllowedError):
            ana.ask(request)


def test_a_restarted_head_knows_the_tokens() -> None:
    row = TokenRow(id=ID, name="ci", role="operator", queues=("lab",), hashes=(HASH,))
    tokens = Tokens(StateStore(), lambda: 5.0, lambda hashes: None)
    tokens.restore([row])
    assert tokens.hashes() == {ID: [HASH]}
    assert tokens.rights(tokens.principal(ID)) == (Role.OPERATOR, ("lab",))
    assert tokens.principal(ID) == Principal(TOKEN, "ci", "ci")
