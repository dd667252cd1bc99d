"""How a program without a node finds its head, and how long the program and its driver wait for
each other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.api import clients
from phalanx.api.clients import RECONNECT, RECONNECT_S, reconnect_s, way_to
from phalanx.errors import AuthenticationError
from phalanx.runtime.daemons import logins, personal_token
from phalanx.runtime.daemons.logins import Login
from phalanx.runtime.daemons.trust import Trust

PIN = "ab" * 32


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("PHALANX_TOKEN_FILE", logins.JOB, RECONNECT):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def login(name: str, address: str) -> personal_token.PersonalToken:
    token = personal_token.new_token()
    made = Login(name=name, address=address, token=str(token), fingerprint=PIN)
    logins.save(logins.read().adding(made))
    return token


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("phalanx://", "lab:6380"),
        ("phalanx://lab", "lab:6380"),
        ("phalanx://lab/", "lab:6380"),
        ("phalanx://far", "10.0.0.1:7000"),
        ("phalanx://10.0.0.1:7000", "10.0.0.1:7000"),
    ],
)
def test_a_login_leads_to_its_head(address: str, found: str) -> None:
    tokens = {"10.0.0.1:7000": login("far", "10.0.0.1:7000"), "lab:6380": login("lab", "lab:6380")}
    assert way_to(address) == (found, tokens[found], Trust(PIN))


def test_without_a_login_the_users_token_is_shown(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AuthenticationError, match="phalanx login lab:6380"):
        way_to("phalanx://lab")
    with pytest.raises(ConnectionError, match="no current login"):
        way_to("phalanx://")
    token = personal_token.new_token()
    personal_token.write(str(place / "token"), token)
    monkeypatch.setenv("PHALANX_TOKEN_FILE", str(place / "token"))
    assert way_to("phalanx://lab") == (f"lab:{clients.PORT}", token, Trust())
    assert way_to("phalanx://lab:1") == ("lab:1", token, Trust())


def test_rays_variable_sets_how_long_both_ends_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reconnect_s() == RECONNECT_S
    for text, found in (("90", 90.0), ("0.5", 0.5), ("soon", RECONNECT_S), ("", RECONNECT_S)):
        monkeypatch.setenv(RECONNECT, text)
        assert reconnect_s() == found
