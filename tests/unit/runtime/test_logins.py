"""The file of logins, and the login that an address without a port means."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from phalanx.errors import AuthenticationError
from phalanx.runtime.daemons import logins, personal_token
from phalanx.runtime.daemons.finding import find_daemons
from phalanx.runtime.daemons.logins import JOB, Login, Logins
from phalanx.runtime.daemons.trust import Trust, read_fingerprint, shown

DIGEST = hashlib.sha256(b"a certificate").hexdigest()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in (JOB, "PHALANX_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config" / "phalanx" / "logins.json"


def made(name: str, address: str = "lab.example:6380") -> Login:
    token = str(personal_token.new_token())
    return Login(name=name, address=address, token=token, fingerprint=DIGEST)


def test_logins_are_kept_in_a_private_file(place: Path) -> None:
    assert logins.read() == Logins()
    one, other = made("lab"), made("home", "10.0.0.1:6380")
    logins.save(Logins().adding(one).adding(other))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert os.listdir(place.parent) == ["logins.json"]
    found = logins.read()
    assert found.current == "home" and found.named("lab") == one and found.named("x") is None
    assert found.at("10.0.0.1:6380") == other and found.at("10.0.0.1:1") is None
    assert found.without("home") == Logins(logins=(one,))
    assert found.without("lab") == Logins(current="home", logins=(other,))


def test_a_later_login_of_a_name_replaces_the_first() -> None:
    first, second = made("lab"), made("lab", "other.example:1")
    assert Logins().adding(first).adding(second) == Logins(current="lab", logins=(second,))


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (None, "lab"),
        ("", "lab"),
        ("auto", "lab"),
        ("lab", "lab"),
        ("home", "home"),
        ("nowhere", None),
        ("local", None),
        ("lab.example:6380", None),
        ("unix:/run/phalanx/1", None),
        ("pid:1", None),
        ("ray:auto", None),
    ],
)
def test_what_an_address_stands_for(address: str | None, name: str | None) -> None:
    logins.save(Logins().adding(made("home")).adding(made("lab")))
    found = logins.chosen(address)
    assert (None if found is None else found.name) == name


def test_a_command_of_a_job_has_no_current_login(monkeypatch: pytest.MonkeyPatch) -> None:
    logins.save(Logins().adding(made("lab")))
    monkeypatch.setenv(JOB, "train")
    assert logins.chosen(None) is None
    named = logins.chosen("lab")
    assert named is not None and named.name == "lab"


def test_a_head_is_found_by_login_name_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    logins.save(Logins().adding(made("home", "127.0.0.1:9")).adding(made("lab")))

    def found(address: str | None) -> tuple[str, str]:
        ((_, head),) = find_daemons(address)
        return head.address, head.name

    assert found(None) == ("lab.example:6380", "lab")
    assert found("home") == ("127.0.0.1:9", "home")
    assert found("127.0.0.1:9") == ("127.0.0.1:9", "home")
    monkeypatch.setenv("PHALANX_ADDRESS", "home")
    assert found(None) == ("127.0.0.1:9", "home")
    assert found("lab") == ("lab.example:6380", "lab")


@pytest.mark.parametrize("how", ["open", "link", "broken", "directory"])
def test_a_file_that_others_could_have_made_is_refused(place: Path, how: str) -> None:
    logins.save(Logins().adding(made("lab")))
    if how == "open":
        place.chmod(0o640)
    elif how == "link":
        place.rename(place.with_name("real"))
        place.symlink_to("real")
    elif how == "directory":
        place.unlink()
        place.mkdir()
    else:
        place.write_text("[]")
    with pytest.raises(AuthenticationError, match=r"logins\.json"):
        logins.read()


def test_a_damaged_token_is_not_used() -> None:
    broken = Login(name="lab", address="a:1", token="phx_short")
    with pytest.raises(AuthenticationError, match="log in again"):
        _ = broken.secret


def test_only_the_pinned_certificate_is_right() -> None:
    assert Trust(DIGEST).binding(b"a certificate", "lab:1").hex() == DIGEST
    assert Trust().binding(b"another", "lab:1") == hashlib.sha256(b"another").digest()
    with pytest.raises(AuthenticationError, match="shows another certificate") as refused:
        Trust(DIGEST).binding(b"another", "lab:1")
    assert shown(DIGEST) in str(refused.value)


def test_fingerprints_are_read_as_they_are_shown() -> None:
    assert read_fingerprint(shown(DIGEST)) == DIGEST
    assert read_fingerprint(DIGEST.upper()) == DIGEST
    for wrong in ("", "SHA256:ab", DIGEST[:-1] + "g", DIGEST + "00"):
        with pytest.raises(ValueError, match="fingerprint"):
            read_fingerprint(wrong)


def test_a_file_of_authorities_must_have_some(tmp_path: Path) -> None:
    empty = tmp_path / "ca.pem"
    empty.write_text("nothing")
    for path in (empty, tmp_path / "missing"):
        with pytest.raises(AuthenticationError, match="authorities"):
            Trust(ca=str(path)).context()
