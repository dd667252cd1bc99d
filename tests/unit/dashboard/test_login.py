"""A code can be used once, within a minute; a session lasts half a day."""

from __future__ import annotations

import pytest

from phalanx.dashboard import login as rules
from phalanx.dashboard.login import Login, make_code

SECRET = b"s" * 32


def test_a_code_opens_one_session():
    login = Login(SECRET)
    code = make_code(SECRET, 100.0)
    session = login.redeem(code, 101.0)
    assert session
    assert login.is_open(session, 101.0)
    assert login.redeem(code, 102.0) is None
    assert login.is_open(session, 101.0 + rules.SESSION_S - 1)
    assert not login.is_open(session, 101.0 + rules.SESSION_S)
    login.close(session)
    assert not login.is_open(session, 102.0)


@pytest.mark.parametrize("code", ["", "x", "é" * 9, "A" * 54, "=" * 40])
def test_what_is_no_code_opens_none(code):
    assert Login(SECRET).redeem(code, 101.0) is None


def test_a_code_of_another_secret_or_time_and_one_that_was_changed_open_none():
    good = make_code(SECRET, 100.0)
    changed = [good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :] for at in (0, 20, 50)]
    others = [make_code(b"other" * 7, 100.0), make_code(SECRET, 30.0), make_code(SECRET, 200.0)]
    for code in (*changed, *others):
        assert Login(SECRET).redeem(code, 101.0) is None, code
    assert Login(SECRET).redeem(good, 101.0)


@pytest.mark.parametrize("session", [None, "", "x", "é"])
def test_what_is_no_session_is_not_open(session):
    assert not Login(SECRET).is_open(session, 0.0)


@pytest.mark.parametrize(
    "wrong",
    ["guess", "", "é", make_code(b"other" * 7, 100.0), make_code(SECRET, 30.0), "A" * 10_000],
    ids=["no code", "empty", "no ascii", "another secret", "too old", "long"],
)
def test_wrong_codes_of_others_do_not_keep_the_right_one_out(wrong):
    """Every user of the machine can send wrong codes."""
    login = Login(SECRET)
    for _ in range(25):
        assert login.redeem(wrong, 100.0) is None
    assert login.redeem(make_code(SECRET, 100.0), 101.0)


def test_a_used_code_sent_again_and_again_keeps_nobody_out():
    login = Login(SECRET)
    used = make_code(SECRET, 100.0)
    first = login.redeem(used, 100.0)
    for _ in range(25):
        assert login.redeem(used, 101.0) is None
    assert login.is_open(first, 101.0)
    assert login.redeem(make_code(SECRET, 101.0), 101.0)


def test_of_too_many_sessions_the_oldest_ends(monkeypatch):
    monkeypatch.setattr(rules, "MAX_SESSIONS", 2)
    login = Login(SECRET)
    sessions = [login.redeem(make_code(SECRET, float(now)), float(now)) for now in range(3)]
    assert [login.is_open(one, 3.0) for one in sessions] == [False, True, True]
