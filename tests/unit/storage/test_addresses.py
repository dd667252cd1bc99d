"""The texts that name a store, and the errors for other texts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phalanx.storage.errors import StorageAddressError
from phalanx.storage.opening import open_storage
from phalanx.storage.redis_address import RedisAddress, parse_redis_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", RedisAddress(servers=(("h", 6379),))),
        ("redis://h:1/3", RedisAddress(servers=(("h", 1),), database=3)),
        (
            "redis://:p%40ss@h:1,[::1]:2/0?replicas=1&timeout_s=2.5&name=lab-1",
            RedisAddress(
                servers=(("h", 1), ("::1", 2)),
                password="p@ss",
                replicas=1,
                timeout_s=2.5,
                name="lab-1",
            ),
        ),
        (
            "rediss://me:secret@h?ca=/etc/ca.pem",
            RedisAddress(
                servers=(("h", 6379),),
                user="me",
                password="secret",
                is_encrypted=True,
                certificates="/etc/ca.pem",
            ),
        ),
        ("unix:///run/r.sock?database=2", RedisAddress(path="/run/r.sock", database=2)),
        ("unix://:pw@/run/r.sock", RedisAddress(path="/run/r.sock", password="pw")),
    ],
)
def test_a_url_says_where_and_how(url: str, expected: RedisAddress) -> None:
    assert parse_redis_url(url) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' names no store"),
        ("sqlite:", "'sqlite:' names no store"),
        ("some/directory/", "'some/directory/' names no store"),
        ("postgres://me:hunter2@h/db", r"postgres://\.\.\. names no store"),
        ("sqlite:///path", r"sqlite://\.\.\. names no store"),
        ("redis://", "a host is missing"),
        ("redis://h:port", "Port could not be cast"),
        ("redis://h:70000", "Port out of range"),
        ("redis://h/zero", "the database is 'zero', which must be a whole number"),
        ("redis://hunter2@h", r"redis://\*\*\*@h: a password stands after a colon"),
        ("redis://:hunter2/x@h", r"redis://\*\*\*@h: the user or password holds a / or \?"),
        ("redis://:hunter2@h?x=1", r"redis://\*\*\*@h\?x=1: there is no option 'x' here"),
        ("redis://:hunter2@h?ca=/x", "no option 'ca' here"),
        ("redis://h?replicas=-1", "replicas is '-1'"),
        ("redis://h?timeout_s=nan", "timeout_s is 'nan'"),
        ("redis://h?name=a:b", "name is 'a:b', which may have letters"),
        ("redis://h?password_file=/none/there", "password_file /none/there cannot be read"),
        ("unix://run/r.sock", "a Unix socket's path begins with a /"),
    ],
)
def test_a_text_that_names_no_store_is_refused_with_what_would_be_right(
    text: str, said: str
) -> None:
    with pytest.raises(StorageAddressError, match=said) as refusal:
        open_storage(text)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("texts", [[], ["memory", "memory"]])
def test_shards_are_one_or_more_and_differ(texts: list[str]) -> None:
    with pytest.raises(StorageAddressError, match="one or more different shards"):
        open_storage(texts)


def test_the_password_is_read_from_a_private_file_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\n")
    file.chmod(0o600)
    address = parse_redis_url(f"redis://h?password_file={file}")
    assert address.password == "hunter2"
    assert "hunter2" not in f"{address} {address!r}"


def test_a_password_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\n")
    file.chmod(0o640)
    with pytest.raises(StorageAddressError, match="must be a file of mode 0600"):
        parse_redis_url(f"redis://h?password_file={file}")
    link = tmp_path / "link"
    os.symlink(file, link)
    with pytest.raises(StorageAddressError, match="cannot be read"):
        parse_redis_url(f"redis://h?password_file={link}")
