"""The largest lists, tables and answers about rights that a head can have."""

from __future__ import annotations

import pytest
from tests.unit.head.rights.test_tokens import HASH, Place

from phalanx.errors import JobCommandError
from phalanx.head.rights import tokens
from phalanx.head.rights.audit import MAX_LATEST
from phalanx.manifests import people_lists
from phalanx.manifests.people_lists import read_people
from phalanx.model import user_limits
from phalanx.model.user_limits import read_user_limits
from phalanx.protocol.requests.rights import ListAudit
from phalanx.protocol.requests.tokens import CreateToken


def test_a_reading_of_the_audit_log() -> None:
    place = Place()
    assert place.boss.ask(ListAudit(MAX_LATEST)) == []
    with pytest.raises(JobCommandError, match="10,001"):
        place.boss.ask(ListAudit(MAX_LATEST + 1))


def test_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST", 2)
    place = Place()
    for number in range(2):
        place.boss.ask(CreateToken(f"t{number}", f"{number:016x}", HASH))
    with pytest.raises(JobCommandError, match="there are 2 tokens"):
        place.boss.ask(CreateToken("t2", f"{2:016x}", HASH))


def test_people_of_a_list() -> None:
    most = people_lists.MOST
    assert len(read_people(",".join(f"u{n}" for n in range(most)))) == most
    with pytest.raises(ValueError, match="at most 1,000 people, not 1,001"):
        read_people(",".join(f"u{n}" for n in range(most + 1)))


def test_users_with_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_limits, "MOST_USERS", 1)
    assert read_user_limits('{"only": {"running": 1}}')
    with pytest.raises(ValueError, match="limits of at most 1 users, not of 2"):
        read_user_limits('{"ana": {"running": 1}, "bo": {"running": 1}}')
