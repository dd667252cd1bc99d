"""Daemons are found by files below the home directory, but only those that run on this machine."""

from __future__ import annotations

import os

import msgspec
import pytest

from phalanx.runtime.daemon_registry import Registered, register, registered
from phalanx.runtime.daemons.daemon_files import Announcement
from phalanx.runtime.os.session import Session, started_at


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".phalanx" / "daemons"


def session(name="a"):
    return Session(name=name, directory=f"/r/{name}", shared="/s", spill="/p", disk="/d")


def daemon(**fields):
    me = os.getpid()
    known = {"kind": "head", "pid": me, "started": started_at(me), "address": "127.0.0.1:1"}
    return Announcement(**{**known, "token_file": "", **fields})


def write(home, name, **fields):
    register(session(name), daemon())
    path = home / f"{name}.json"
    one = msgspec.json.decode(path.read_bytes(), type=Registered)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(one, **fields)))


def test_a_daemon_is_found_with_its_session(home):
    register(session(), daemon())
    (one,) = registered()
    assert (one.session, one.daemon, one.root) == (session(), daemon(), "/r")
    assert [path.stat().st_mode & 0o777 for path in (home, home / "a.json")] == [0o700, 0o600]


def test_a_private_one_is_not(home):
    register(session(), daemon(is_private=True))
    assert registered() == []


@pytest.mark.parametrize(
    ("fields", "stays"),
    [
        ({"daemon": daemon(started="1")}, False),
        ({"boot": "another"}, False),
        ({"boot": "another", "host": "another"}, True),
    ],
)
def test_the_dead_are_not_found_and_files_of_other_machines_stay(home, fields, stays):
    write(home, "a", **fields)
    assert registered() == []
    assert (home / "a.json").exists() is stays


def test_what_is_no_record_is_passed_over(home):
    register(session(), daemon())
    (home / "b.json").write_text("{}")
    (home / "c.json").mkdir()
    assert [one.session.name for one in registered()] == ["a"]


def test_daemons_of_another_user_are_passed_over(home, monkeypatch):
    register(session(), daemon())
    uid = os.getuid()
    monkeypatch.setattr("os.getuid", lambda: uid + 1)
    assert registered() == []
    assert (home / "a.json").exists()


def test_a_home_that_cannot_be_written_to_hinders_nobody(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    register(session(), daemon())
    assert registered() == []


def test_a_process_that_restarted_is_found_only_as_its_latest_node(home):
    for number, name in enumerate("ab"):
        register(session(name), daemon(kind="node", node_id=name))
        os.utime(home / f"{name}.json", ns=(number, number))
    (one,) = registered()
    assert one.daemon.node_id == "b"
    assert [path.name for path in home.iterdir()] == ["b.json"]
