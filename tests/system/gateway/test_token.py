"""The token's file."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from phalanx.errors import AuthenticationError
from phalanx.runtime.daemons import cluster_token
from phalanx.runtime.gateway.token_file import TokenFile


def test_a_new_token_is_private_and_stays(tmp_path):
    path = str(tmp_path / "new" / "token")
    cluster_token.ensure(path)
    assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.lstat(os.path.dirname(path)).st_mode) == 0o700
    secret = cluster_token.read(path)
    assert len(secret) == 32
    cluster_token.ensure(path)
    assert cluster_token.read(path) == secret
    assert os.listdir(tmp_path / "new") == ["token"], "no draft is left"
    other = str(tmp_path / "other")
    cluster_token.ensure(other)
    assert cluster_token.read(other) != secret


def test_who_starts_at_once_finds_one_token(tmp_path):
    path = str(tmp_path / "token")
    start = threading.Barrier(8)
    found = []

    def begin():
        start.wait()
        cluster_token.ensure(path)
        found.append(cluster_token.read(path))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def _missing(path):
    pass


def _open_to_others(path):
    cluster_token.ensure(str(path))
    path.chmod(0o640)


def _link(path):
    cluster_token.ensure(f"{path}-real")
    path.symlink_to(f"{path}-real")


def _directory(path):
    path.mkdir(mode=0o700)


def _pipe(path):
    os.mkfifo(path, 0o600)


def _text(path):
    path.write_text("secret")
    path.chmod(0o600)


def _binary(path):
    path.write_bytes(b"\xff" * 10_000)
    path.chmod(0o600)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_missing, "there is no token"),
        (_open_to_others, "mode 0640"),
        (_link, "not a link"),
        (_directory, "a file of this user"),
        (_pipe, "a file of this user"),
        (_text, "does not contain a token"),
        (_binary, "does not contain a token"),
    ],
)
def test_what_is_no_private_token_is_refused_by_name(tmp_path, make, why):
    path = tmp_path / "token"
    make(path)
    with pytest.raises(AuthenticationError, match=why) as caught:
        cluster_token.read(str(path))
    assert str(path) in str(caught.value)


def test_the_environment_names_the_file(monkeypatch, tmp_path):
    monkeypatch.delenv("PHALANX_TOKEN_FILE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cluster_token.default_path() == str(tmp_path / ".phalanx" / "token")
    monkeypatch.setenv("PHALANX_TOKEN_FILE", "/elsewhere")
    assert cluster_token.default_path() == "/elsewhere"


def test_no_token_gets_into_a_log(tmp_path):
    path = tmp_path / "token"
    cluster_token.ensure(str(path))
    token = path.read_text().strip()
    line = cluster_token.redact(f"Error: {token}, twice: '{token}'")
    assert line == "Error: phx_…, twice: 'phx_…'"


def test_a_rotation_keeps_both_tokens_until_the_end(tmp_path):
    path = str(tmp_path / "token")
    cluster_token.ensure(path)
    tokens = TokenFile(path)
    old = tokens.own()
    cluster_token.add_next(path)
    first, new = tokens.accepted()
    assert (first, tokens.own()) == (old, old)
    with pytest.raises(ValueError, match="two tokens already"):
        cluster_token.add_next(path)
    cluster_token.show_next(path)
    assert tokens.accepted() == [new, old]
    os.chmod(path, 0o644)
    assert tokens.accepted() == [new, old], "a file that cannot be used changes nothing"
    os.chmod(path, 0o600)
    cluster_token.drop_last(path)
    assert tokens.accepted() == [new] == [cluster_token.read(path)]
    for step in (cluster_token.show_next, cluster_token.drop_last):
        with pytest.raises(ValueError, match="no rotation is under way"):
            step(path)
    assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    assert os.listdir(tmp_path) == ["token"]


@pytest.mark.parametrize("text", ["", "one two three", "phx_short", "phx_" + "a" * 43 + " x"])
def test_other_files_hold_no_token(tmp_path, text):
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(AuthenticationError, match="does not contain a token"):
        cluster_token.read_all(str(path))
