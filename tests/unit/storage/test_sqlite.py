"""The SQLite file of a store: its permissions, its lock, and the errors if it is damaged or
full.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.system_programs import find_tool

from phalanx.storage import sqlite as module
from phalanx.storage.errors import (
    StorageCorruptError,
    StorageError,
    StorageInUseError,
    WritesLostError,
)
from phalanx.storage.opening import open_storage
from phalanx.storage.sqlite import _SCHEMA, delete

from .crashing import PROCESSES, Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "head.db"


def _filled(path: Path, rows: int = 1_000) -> None:
    storage = open_storage(str(path))
    storage.apply({("nodes", b"%d" % at): b"%d" % at * 100 for at in range(rows)})
    storage.close()


def test_nobody_else_may_read_any_file_while_it_is_open(path: Path) -> None:
    before = os.umask(0)
    try:
        storage = open_storage(str(path))
        storage.apply({("nodes", b"n"): b"1"})
        found = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
        storage.close()
    finally:
        os.umask(before)
    names = ("head.db", "head.db-wal", "head.db-shm", "head.db.lock", "head.db.mark")
    assert found == dict.fromkeys(names, 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_batch_of_nothing_writes_nothing(path: Path) -> None:
    storage = open_storage(str(path))
    storage.apply({("nodes", b"n"): b"1"})
    files = [path, path.with_name("head.db-wal"), path.with_name("head.db.mark")]
    before = [file.read_bytes() for file in files]
    storage.apply({})
    assert [file.read_bytes() for file in files] == before
    storage.close()


def _open_directory(path: Path) -> None:
    path.parent.mkdir(mode=0o755)


def _open_file(path: Path) -> None:
    _filled(path)
    path.chmod(0o644)


def _link(path: Path) -> None:
    _filled(path)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _linked_log(path: Path) -> None:
    _filled(path)
    path.with_name("head.db-wal").symlink_to("elsewhere")


def _linked_directory(path: Path) -> None:
    path.parent.with_name("elsewhere").mkdir(mode=0o700)
    path.parent.symlink_to("elsewhere")


def _directory(path: Path) -> None:
    path.mkdir(parents=True, mode=0o700)
    path.parent.chmod(0o700)


def _of_another_program(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    path.chmod(0o600)


def _of_a_later_version(path: Path) -> None:
    _filled(path)
    with sqlite3.connect(path) as ours:
        ours.execute("PRAGMA user_version = 7")
    ours.close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_open_directory, r"store has mode 755.*`chmod 700 "),
        (_open_file, r"head\.db has mode 644.*`chmod 600 "),
        (_link, r"head\.db must be a file, and it is a symbolic link"),
        (_linked_log, r"head\.db-wal must be a file, and it is a symbolic link"),
        (_linked_directory, r"store must be a directory, and it is a symbolic link"),
        (_directory, r"head\.db must be a file"),
        (_of_another_program, r"head\.db is an SQLite file of another program"),
        (_of_a_later_version, r"head\.db has format 7, .* reads format 2"),
    ],
)
def test_what_is_not_a_private_store_is_refused(
    path: Path, make: Callable[[Path], None], said: str
) -> None:
    make(path)
    with pytest.raises(StorageError, match=said):
        open_storage(f"sqlite:{path}")


def _overwrite(path: Path, at: int, size: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * size)


@pytest.mark.parametrize(
    ("at", "size"), [(0, 100), (4096, 4096), (5 * 4096, 8192), (20 * 4096 + 5, 200)]
)
def test_a_damaged_file_is_named_when_it_is_opened(path: Path, at: int, size: int) -> None:
    _filled(path)
    _overwrite(path, at, size)
    with pytest.raises(StorageCorruptError, match=r"head\.db is damaged \(.*Put a copy"):
        open_storage(str(path))


def test_a_file_cut_short_is_named(path: Path) -> None:
    _filled(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StorageCorruptError, match=r"head\.db is damaged"):
        open_storage(str(path))


def _cut(log: Path, before: int) -> None:
    os.truncate(log, (before + log.stat().st_size) // 2)


def _garble(log: Path, before: int) -> None:
    _overwrite(log, before + 30, 4)


def _delete(log: Path, before: int) -> None:
    log.unlink()


@pytest.mark.parametrize(
    ("damage", "kept"), [(_cut, b"kept" * 2_000), (_garble, b"kept" * 2_000), (_delete, None)]
)
def test_a_log_that_lost_its_end_is_named_and_gone_on_with_only_when_asked(
    path: Path, damage: Callable[[Path, int], None], kept: bytes | None
) -> None:
    open_storage(str(path)).close()
    writer = Writer([str(path)])
    writer.apply({("nodes", b"n"): b"kept" * 2_000})
    log = path.with_name("head.db-wal")
    size = log.stat().st_size
    writer.apply({("nodes", b"n"): b"torn" * 2_000})
    writer.kill()
    damage(log, size)
    missing = "all since epoch 1" if kept is None else "the last 1"
    said = rf"head\.db has lost its end: .*confirmed, {missing} .*head\.db\.mark says batch 2 of"

    def content() -> list[bytes]:
        return [each.read_bytes() if each.exists() else b"" for each in (path, log)]

    left = content()
    for _ in range(2):
        with pytest.raises(WritesLostError, match=said):
            open_storage(str(path))
        assert content() == left, "what can be mended is left as it is"
    storage = open_storage(str(path), accept_loss=True)
    assert storage.get("nodes", b"n") == kept
    storage.close()
    open_storage(str(path)).close()


def test_an_empty_file_in_place_of_a_known_store_is_refused(path: Path) -> None:
    _filled(path)
    path.unlink()
    for _ in range(2):
        with pytest.raises(WritesLostError, match=r"head\.db is empty, and .*held the cluster"):
            open_storage(str(path))
    before = path.with_name("head.db.mark").read_text().split()[0]
    storage = open_storage(str(path), accept_loss=True)
    assert storage.is_new
    assert storage.cluster != before, "a new cluster has a name of its own"
    storage.close()


def test_the_store_of_another_cluster_is_refused(path: Path) -> None:
    _filled(path)
    other = path.with_name("other.db")
    _filled(other)
    other.rename(path)
    with pytest.raises(WritesLostError, match=r"head\.db holds the cluster \w+, and .*mark says"):
        open_storage(str(path))


def test_a_mark_that_was_garbled_is_named(path: Path) -> None:
    _filled(path)
    mark = path.with_name("head.db.mark")
    _overwrite(mark, 20, 3)
    with pytest.raises(StorageCorruptError, match=r"head\.db\.mark is damaged"):
        open_storage(str(path))
    open_storage(str(path), accept_loss=True).close()
    open_storage(str(path)).close()


def test_a_value_that_was_garbled_where_sqlite_does_not_look_is_named(path: Path) -> None:
    storage = open_storage(str(path))
    storage.apply({("nodes", b"n"): b"x" * 50_000})
    storage.close()
    at = path.read_bytes().index(b"x" * 4_000)
    _overwrite(path, at + 2_000, 1)
    storage = open_storage(str(path))
    for read in (lambda: storage.get("nodes", b"n"), lambda: list(storage.load("nodes"))):
        with pytest.raises(StorageCorruptError, match=r"row 6e of the table nodes is not what was"):
            read()
    storage.close()


def test_a_file_of_the_first_format_is_read_and_written_on(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as old:
        old.executescript(_SCHEMA)
        old.execute("INSERT INTO stored VALUES ('nodes', x'6e', x'31')")
    old.close()
    path.chmod(0o600)
    for _ in range(2):
        storage = open_storage(str(path))
        assert storage.get("nodes", b"n") == b"1"
        storage.apply({("nodes", b"m"): b"2"})
        storage.close()


def test_the_log_has_room_of_its_own_before_it_needs_it(path: Path) -> None:
    storage = open_storage(str(path))
    assert storage.shortage() == ""
    log = path.with_name("head.db-wal")
    if log.stat().st_blocks * 512 < module.RESERVE_BYTES:
        pytest.skip("this file system reserves nothing")
    length = log.stat().st_size
    storage.apply({("nodes", b"n"): b"x" * 100_000})
    assert length < log.stat().st_size < module.RESERVE_BYTES
    storage.close()


def test_little_room_is_said_before_there_is_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(str(path))
    monkeypatch.setattr(module, "FLOOR_BYTES", 2**60)
    assert re.fullmatch(r"the disk of \S+head\.db has \d+ MiB left", storage.shortage())
    monkeypatch.setattr(module, "FLOOR_BYTES", 0)
    assert storage.shortage() == ""
    storage.close()


def test_two_heads_cannot_open_one_file(path: Path) -> None:
    writer = Writer([str(path)])
    for _ in range(2):
        with pytest.raises(StorageInUseError, match=rf"open in process {writer.process.pid}: "):
            open_storage(str(path))
    writer.kill()
    open_storage(str(path)).close()


def test_a_store_is_deleted_with_all_its_files_unless_somebody_has_it(path: Path) -> None:
    storage = open_storage(str(path))
    storage.apply({("nodes", b"a"): b"row"})
    with pytest.raises(StorageInUseError):
        delete(str(path))
    assert storage.get("nodes", b"a") == b"row"
    storage.close()
    assert delete(str(path)) is True
    assert list(path.parent.iterdir()) == []
    assert delete(str(path)) is False


def test_one_process_cannot_open_a_file_twice(path: Path) -> None:
    storage = open_storage(str(path))
    with pytest.raises(StorageInUseError, match=rf"open in process {os.getpid()}"):
        open_storage(str(path))
    storage.apply({("nodes", b"n"): b"the first one still writes"})
    storage.close()


def _fork_and_die(path: str, connection: Connection) -> None:
    storage = open_storage(path)
    child = os.fork()
    if child == 0:
        connection.send("outlives")
        signal.pause()
    signal.pause()
    storage.close()


def test_a_forked_child_that_outlives_its_head_keeps_nobody_out(path: Path) -> None:
    ours, theirs = PROCESSES.Pipe()
    head = PROCESSES.Process(target=_fork_and_die, args=(str(path), theirs))
    head.start()
    theirs.close()
    assert ours.recv() == "outlives"
    with open(f"/proc/{head.pid}/task/{head.pid}/children") as children:
        child = int(children.read())
    head.kill()
    head.join()
    try:
        open_storage(str(path)).close()
    finally:
        os.kill(child, signal.SIGKILL)
        ours.close()


def _fill(path: str, limit_bytes: int, connection: Connection) -> None:
    """Write until a write fails. Then send how many batches were acknowledged, and the error of
    this write and the next one.
    """
    if limit_bytes:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    storage = open_storage(path)
    number = 0
    errors: list[tuple[str, str]] = []
    while len(errors) < 2:
        try:
            storage.apply({("nodes", b"%d" % number): b"x" * 10_000, ("last", b""): b"%d" % number})
            number += 1
        except StorageError as error:
            errors.append((type(error).__name__, str(error)))
    connection.send((number, errors))


def test_a_file_that_cannot_grow_ends_the_store_and_keeps_what_it_has(path: Path) -> None:
    ours, theirs = PROCESSES.Pipe()
    process = PROCESSES.Process(target=_fill, args=(str(path), 300_000, theirs))
    process.start()
    acknowledged, errors = ours.recv()
    process.join()
    ours.close()
    theirs.close()
    assert errors[0] == errors[1]
    assert errors[0][0] == "StorageError"
    assert "head.db cannot be read or written (disk I/O error). Check" in errors[0][1]
    _check_acknowledged(path, acknowledged)


def _check_acknowledged(path: Path, acknowledged: int) -> None:
    storage = open_storage(str(path))
    assert acknowledged > 3
    assert storage.get("last", b"") == b"%d" % (acknowledged - 1)
    assert len(list(storage.load("nodes"))) == acknowledged
    storage.close()


_ON_A_SMALL_DISK = """
import sys, os
from phalanx.storage.errors import StorageFullError
from phalanx.storage.opening import open_storage
storage = open_storage(sys.argv[1])
number = 0
try:
    while True:
        storage.apply({("nodes", b"%d" % number): b"x" * 10_000, ("last", b""): b"%d" % number})
        number += 1
except StorageFullError as error:
    print(error)
failed = {("nodes", b"%d" % number): b"x" * 10_000, ("last", b""): b"%d" % number}
os.unlink(sys.argv[2])
storage.apply(failed)
number += 1
storage.close()
storage = open_storage(sys.argv[1])
assert storage.get("last", b"") == b"%d" % (number - 1), number
storage.apply({("nodes", b"more"): b"there is room again"})
print("nothing lost of", number)
"""


def test_a_full_disk_is_named_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    unshare = find_tool("unshare")
    if unshare is None:
        pytest.skip("unshare is missing: apt-get install util-linux")
    in_a_namespace = [unshare, "--map-root-user", "--mount", "--", "sh", "-euc"]
    if subprocess.run([*in_a_namespace, "mount -t tmpfs none /mnt"], check=False).returncode:
        pytest.skip("this kernel lets nobody mount a small disk in a namespace")
    script = (
        f"mount -t tmpfs -o size=3m none {disk}; "
        f"head -c 1700000 /dev/zero >{disk}/ballast; "
        'exec "$@"'
    )
    run = subprocess.run(
        [
            *in_a_namespace, script, "sh", sys.executable, "-c", _ON_A_SMALL_DISK,
            str(disk / "store" / "head.db"), str(disk / "ballast"),
        ],
        check=True,
        capture_output=True,
        text=True,
    )  # fmt: skip
    full, kept = run.stdout.splitlines()
    assert "head.db: the disk is full. Make room on that file system" in full
    assert int(kept.removeprefix("nothing lost of ")) > 3
