"""Redis servers that refuse writes, are full, go away, hang, lose data, and come back."""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.storage.errors import (
    StorageError,
    StorageFullError,
    StorageUnreachableError,
    WritesLostError,
)
from phalanx.storage.opening import open_storage
from phalanx.storage.storage import Storage
from phalanx_benchmarks.redis_server import RedisServer

HEAD_KEY = "phalanx:{default}:head"


@contextlib.contextmanager
def opened(url: str) -> Iterator[Storage]:
    storage = open_storage(url)
    try:
        yield storage
    finally:
        storage.close()


@pytest.fixture
def server(short_directory: Path) -> Iterator[RedisServer]:
    with RedisServer(str(short_directory / "r")) as server:
        yield server


def _row(number: int) -> dict[tuple[str, bytes], bytes | None]:
    return {("nodes", b"%d" % number): b"%d" % number}


def _rows(storage: Storage) -> list[int]:
    return sorted(int(value) for _, value in storage.load("nodes"))


def test_stores_of_different_names_share_a_server_and_nothing_else(server: RedisServer) -> None:
    with opened(f"{server.url}&name=a") as a, opened(f"{server.url}&name=b") as b:
        a.apply(_row(1))
        b.apply(_row(2))
        assert (_rows(a), _rows(b)) == ([1], [2])


def test_a_server_that_comes_back_is_written_to_again(server: RedisServer) -> None:
    with opened(server.url) as storage:
        storage.apply(_row(1))
        server.kill()
        back = threading.Thread(target=server.start)
        back.start()
        storage.apply(_row(2))
        back.join()
        storage.apply(_row(3))
        assert _rows(storage) == [1, 2, 3]


def test_a_server_that_comes_back_is_read_again(server: RedisServer) -> None:
    with opened(server.url) as storage:
        storage.apply(_row(1))
        server.kill()
        server.start()
        assert _rows(storage) == [1]


def test_a_server_that_stays_away_is_named_within_the_time(server: RedisServer) -> None:
    with opened(f"{server.url}&timeout_s=1") as storage:
        server.kill()
        said = rf"unix://{server.socket} cannot be used \(.*\), tried for 1 s\. Check that"
        with pytest.raises(StorageUnreachableError, match=said):
            storage.apply(_row(1))
        server.start()
        with pytest.raises(StorageUnreachableError):
            storage.apply(_row(2))
    with opened(server.url) as storage:
        assert _rows(storage) == []


def test_a_server_that_forgot_what_it_confirmed_is_not_written_to(server: RedisServer) -> None:
    with opened(server.url) as storage:
        storage.apply(_row(1))
        server.kill()
        shutil.rmtree(Path(server.directory, "appendonlydir"))
        server.start()
        with pytest.raises(WritesLostError, match=r"no longer holds all 1 batches"):
            storage.apply(_row(2))
        assert _rows(storage) == []


def test_a_server_that_went_back_in_time_is_not_written_to(server: RedisServer) -> None:
    kept = Path(server.directory, "appendonlydir")
    copy = Path(server.directory, "copy")
    with opened(server.url) as storage:
        storage.apply(_row(1))
        server.kill()
        shutil.copytree(kept, copy)
        server.start()
        storage.apply(_row(2))
        server.kill()
        shutil.rmtree(kept)
        copy.rename(kept)
        server.start()
        with pytest.raises(WritesLostError, match=r"no longer holds all 2 batches"):
            storage.apply(_row(3))
        assert _rows(storage) == [1]


class Cutter:
    """A proxy before a server. In place of one given answer it cuts the connection."""

    def __init__(self, path: str, server: RedisServer) -> None:
        self.cut_after_requests_with: bytes | None = None
        self.cuts = 0
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        # Wakes the thread out of accept, which closing the socket would not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, socket.socket(socket.AF_UNIX) as there:
                    there.connect(self._server.socket)
                    self._forward(client, there)

    def _forward(self, client: socket.socket, there: socket.socket) -> None:
        while request := client.recv(1 << 20):
            there.sendall(request)
            answer = there.recv(1 << 20)
            text = self.cut_after_requests_with
            if text is not None and text in request:
                self.cut_after_requests_with = None
                self.cuts += 1
                return
            client.sendall(answer)


def test_a_batch_whose_answer_is_lost_is_applied_once(
    server: RedisServer, short_directory: Path
) -> None:
    path = str(short_directory / "cut")
    cutter = Cutter(path, server)
    try:
        cutter.cut_after_requests_with = b"'token', ARGV[3], 'sequence', 0"
        with opened(f"unix://{path}?password_file={server.password_file}") as storage:
            assert cutter.cuts == 1
            for number in range(1, 5):
                cutter.cut_after_requests_with = b"HDEL" if number % 2 else None
                storage.apply(_row(number))
                assert server.ask("HGET", HEAD_KEY, "sequence") == b"%d\r\n" % number
            assert cutter.cuts == 3
            assert _rows(storage) == [1, 2, 3, 4]
    finally:
        cutter.close()


def test_a_batch_that_arrives_again_late_is_not_applied_again(server: RedisServer) -> None:
    with opened(server.url) as storage:
        shard = storage._shards[0]
        storage.apply({("nodes", b"n"): b"1"})
        storage.apply({("nodes", b"n"): b"2"})
        vars(shard)["_sequence"] = 0
        with pytest.raises(WritesLostError):
            shard.apply({("nodes", b"n"): b"1"})
        assert storage.get("nodes", b"n") == b"2"


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        (
            "maxmemory 90mb\nmaxmemory-policy allkeys-lru",
            StorageError,
            "maxmemory-policy allkeys-l",
        ),
        ("maxmemory 2mb\nmaxmemory-policy noeviction", StorageFullError, "at its limit of memory"),
        ("replicaof 127.0.0.1 1", StorageUnreachableError, "the server is a replica"),
        ("rename-command EVAL ''", StorageError, "refuses: unknown command"),
    ],
)
def test_a_server_that_cannot_keep_the_store_is_named(
    short_directory: Path, settings: str, error: type[StorageError], said: str
) -> None:
    with RedisServer(str(short_directory / "r"), settings=settings) as server:
        url = f"{server.url}&timeout_s=2"
        with pytest.raises(error, match=said) as refusal, opened(url) as storage:
            for number in range(10):
                storage.apply({("nodes", b"%d" % number): b"x" * 500_000})
        assert type(refusal.value) is error


def test_a_replica_too_few_is_not_a_write(server: RedisServer) -> None:
    with opened(server.url) as storage:
        storage.apply(_row(1))
    with pytest.raises(StorageUnreachableError, match=r"0 of 1 replicas have confirmed the write"):
        open_storage(f"{server.url}&replicas=1&timeout_s=1")


def test_the_password_is_never_shown(
    server: RedisServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"unix://:{server.password}@{server.socket}?timeout_s=1"
    shown = []
    with opened(url) as storage:
        shown += [repr(storage), repr(storage._shards), str(vars(storage._shards[0])["_address"])]
        server.kill()
        with pytest.raises(StorageUnreachableError) as gone:
            storage.apply(_row(1))
        shown.append(str(gone.value))
    server.start()
    wrong = url.replace(server.password, server.password[::-1])
    with pytest.raises(StorageError, match="refuses the user or password") as refusal:
        open_storage(wrong)
    shown += [str(refusal.value), repr(refusal.value)]
    with pytest.raises(StorageError, match="refuses the user or password"):
        open_storage(f"unix://{server.socket}?timeout_s=1")
    shown += [caplog.text, *capfd.readouterr()]
    for text in shown:
        assert server.password not in text
        assert server.password[::-1] not in text


@pytest.fixture
def certificate(short_directory: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate for localhost, and its key."""
    file, key = short_directory / "cert.pem", short_directory / "key.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
            "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-days", "2", "-out", str(file), "-keyout", str(key),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return file, key


def test_a_server_with_tls_is_trusted_by_its_authority_only(
    short_directory: Path, certificate: tuple[Path, Path], free_port: int
) -> None:
    file, key = certificate
    settings = (
        f"tls-port {free_port}\ntls-cert-file {file}\ntls-key-file {key}\n"
        f"tls-ca-cert-file {file}\ntls-auth-clients no"
    )
    with RedisServer(str(short_directory / "r"), settings=settings) as server:
        url = f"rediss://localhost:{free_port}/0?password_file={server.password_file}&timeout_s=120"
        with opened(f"{url}&ca={file}") as storage:
            storage.apply(_row(1))
            assert _rows(storage) == [1]
        with pytest.raises(StorageUnreachableError, match="certificate verify failed"):
            open_storage(url.replace("timeout_s=120", "timeout_s=1"))
