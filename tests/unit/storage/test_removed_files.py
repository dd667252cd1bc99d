"""If files of a store are removed while a head writes them, they are written again completely."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.observe.attempts import attempt

from phalanx.model.attempts import AttemptRow
from phalanx.model.rows.rights import AuditInfo
from phalanx.observe.accounting.questions import AttemptQuery
from phalanx.runtime.head.audit_file import AuditFile
from phalanx.storage.errors import StorageInUseError, WritesLostError
from phalanx.storage.ledger import SqliteLedger
from phalanx.storage.opening import open_storage
from phalanx.storage.storage import Storage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "head.db"


def _write(storage: Storage, first: int, count: int) -> None:
    for number in range(first, first + count):
        storage.apply({("nodes", b"%d" % number): b"%d" % number * 1_000})


def _held(path: Path) -> int:
    """Return the number of rows that the next head finds."""
    storage = open_storage(str(path))
    try:
        return len(list(storage.load("nodes")))
    finally:
        storage.close()


def _all(path: Path) -> None:
    shutil.rmtree(path.parent)


def _moved(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def _files(*endings: str) -> Callable[[Path], None]:
    def remove(path: Path) -> None:
        for ending in endings:
            os.unlink(str(path) + ending)

    return remove


REMOVALS = {
    "the directory": _all,
    "the directory, moved": _moved,
    "the file": _files(""),
    "the log": _files("-wal"),
    "the file and its log": _files("", "-wal"),
    "all but the lock": _files("", "-wal", "-shm", ".mark"),
    "the lock": _files("", ".lock"),
}


@pytest.mark.parametrize("removal", REMOVALS)
def test_what_was_written_before_and_after_a_removal_is_there(path: Path, removal: str) -> None:
    storage = open_storage(str(path))
    _write(storage, 0, 50)
    assert storage.shortage() == ""
    REMOVALS[removal](path)
    _write(storage, 50, 50)
    assert storage.shortage() == ""
    _write(storage, 100, 50)
    with pytest.raises(StorageInUseError):
        open_storage(str(path))
    modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    names = ("head.db", "head.db-wal", "head.db-shm", "head.db.lock", "head.db.mark")
    assert modes == dict.fromkeys(names, 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(list(storage.load("nodes"))) == 150
    # as after a head that is killed: nothing is closed
    copied = path.parent.with_name("copied")
    shutil.copytree(path.parent, copied)
    assert _held(copied / path.name) == 150
    storage.close()
    assert _held(path) == 150


def test_a_store_is_written_again_as_often_as_it_is_removed(path: Path) -> None:
    storage = open_storage(str(path))
    for times in range(3):
        assert storage.shortage() == ""
        _write(storage, 10 * times, 10)
        _all(path)
        assert storage.shortage() == ""
        assert storage.shortage() == ""
    storage.close()
    assert _held(path) == 30


def test_a_store_that_cannot_be_written_again_says_so_and_heals(path: Path) -> None:
    storage = open_storage(str(path))
    _write(storage, 0, 10)
    assert storage.shortage() == ""
    _all(path)
    path.parent.touch()  # no directory can be made there
    said = storage.shortage()
    assert said.startswith(f"{path} was removed, and cannot be written again")
    _write(storage, 10, 10)
    path.parent.unlink()
    assert storage.shortage() == ""
    storage.close()
    assert _held(path) == 20


def test_a_file_that_was_put_in_the_place_of_a_store_stays(path: Path) -> None:
    storage = open_storage(str(path))
    _write(storage, 0, 10)
    assert storage.shortage() == ""
    os.unlink(path)
    path.write_bytes(b"a copy that was put back")
    assert "now there is another file" in storage.shortage()
    assert path.read_bytes() == b"a copy that was put back"
    storage.close()


def test_a_mark_that_was_removed_notices_losses_again(path: Path) -> None:
    storage = open_storage(str(path))
    _write(storage, 0, 10)
    assert storage.shortage() == ""
    mark = path.with_name("head.db.mark")
    mark.unlink()
    assert storage.shortage() == ""
    _write(storage, 10, 10)
    storage.close()
    path.unlink()
    path.touch(mode=0o600)
    with pytest.raises(WritesLostError):
        open_storage(str(path))


def test_a_history_that_was_removed_is_written_again(tmp_path: Path) -> None:
    place = tmp_path / "store" / "head.db.history"
    ledger = SqliteLedger(str(place))
    for number in range(3):
        ledger.add([AttemptRow(key=b"%d" % number, attempt=attempt())], 40_000.0)
        if number == 1:
            shutil.rmtree(place.parent)
    assert len(ledger.attempts(AttemptQuery()).attempts) == 3
    ledger.close()
    again = SqliteLedger(str(place))
    assert len(again.attempts(AttemptQuery()).attempts) == 3
    again.close()


def test_an_audit_log_that_was_removed_begins_anew(tmp_path: Path) -> None:
    place = tmp_path / "store" / "head.db.audit"
    audit = AuditFile(str(place))
    record = AuditInfo(
        at=1.0,
        principal="somebody",
        user="somebody",
        origin="here",
        verb="cancel",
        what="a job",
        result="done",
    )
    audit.add(record)
    shutil.rmtree(place.parent)
    audit.add(record)
    assert place.read_bytes().count(b"\n") == 1
    assert place.stat().st_mode & 0o777 == 0o600
    assert [one.user for one in audit.latest(10, lambda _: True)] == ["somebody"]
