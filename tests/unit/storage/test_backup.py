"""Backups of stores in files: they are consistent while a head writes, and refused where they would
do harm.
"""

from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from phalanx.storage.backup import back_up, restore
from phalanx.storage.errors import StorageCorruptError, StorageError, StorageInUseError
from phalanx.storage.ledger import ENDING, SqliteLedger
from phalanx.storage.opening import open_storage


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store" / "head.db")


def fill(path: str | list[str], text: bytes = b"1") -> None:
    storage = open_storage(path, by_key={"objects": 1})
    storage.apply({("nodes", b"n"): text, ("objects", b"a"): text, ("objects", b"b"): text})
    storage.close()


def rows(path: str | list[str]) -> dict[str, list[tuple[bytes, bytes]]]:
    storage = open_storage(path, by_key={"objects": 1})
    found = {table: list(storage.load(table)) for table in ("nodes", "objects")}
    storage.close()
    return found


def save(path: str, tmp_path: Path) -> str:
    file = str(tmp_path / "backup.tar")
    back_up([path], file, version="1", at=5.0)
    return file


def test_a_restored_store_has_the_rows_of_the_time_of_the_backup(path: str, tmp_path: Path) -> None:
    fill(path)
    before = rows(path)
    file = save(path, tmp_path)
    assert os.stat(file).st_mode & 0o777 == 0o600
    fill(path, b"2")
    made = restore(file, [path], replaces=True)
    assert (made.version, made.at, made.epoch) == ("1", 5.0, 2)
    assert rows(path) == before
    elsewhere = str(tmp_path / "other" / "head.db")
    restore(file, [elsewhere], replaces=False)
    assert rows(elsewhere) == before


@contextmanager
def written_all_the_time(path: str) -> Iterator[threading.Event]:
    """Write to a head's store in which two rows always have the same value. Yields an event that is
    set after 20 batches.
    """
    storage, ends, has_begun = open_storage(path), threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        while not ends.is_set():
            number += 1
            value = b"%08d" % number * 500
            storage.apply({("nodes", b"one"): value, ("nodes", b"two"): value})
            if number == 20:
                has_begun.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield has_begun
    finally:
        ends.set()
        thread.join()
        storage.close()


def test_a_backup_is_whole_while_a_head_writes(path: str, tmp_path: Path) -> None:
    with written_all_the_time(path) as has_begun:
        assert has_begun.wait(60)
        files = [str(tmp_path / f"{number}.tar") for number in range(10)]
        batches = [back_up([path], file, version="1", at=1.0).sequence for file in files]
        with pytest.raises(StorageInUseError):
            restore(files[0], [path], replaces=True)
    assert batches == sorted(batches)
    assert batches[-1] > batches[0] >= 20
    for number, file in enumerate(files):
        place = str(tmp_path / f"restored-{number}" / "head.db")
        restore(file, [place], replaces=False)
        (_, one), (_, two) = rows(place)["nodes"]
        assert one == two == b"%08d" % batches[number] * 500


def test_shards_and_the_history_are_restored_together(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a" / f"{number}.db") for number in range(2)]
    fill(paths)
    before = rows(paths)
    SqliteLedger(paths[0] + ENDING).close()
    file = str(tmp_path / "backup.tar")
    made = back_up(paths, file, version="1", at=1.0)
    assert [part.name for part in made.parts] == ["shard-0.db", "shard-1.db", "history.db"]
    places = [str(tmp_path / "b" / f"{number}.db") for number in range(2)]
    with pytest.raises(StorageError, match="holds 2 shards, and 1 places are named"):
        restore(file, places[:1], replaces=False)
    restore(file, places, replaces=False)
    assert rows(places) == before
    assert os.path.exists(places[0] + ENDING)


@pytest.mark.parametrize("address", ["memory", "redis://:secret@h:1/0"])
def test_other_stores_are_refused_with_the_way_to_save_them(address: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is no file") as raised:
        back_up([address], str(tmp_path / "b"), version="1", at=1.0)
    assert "secret" not in str(raised.value)


def test_nothing_is_overwritten(path: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="There is no store at"):
        back_up([path], str(tmp_path / "b"), version="1", at=1.0)
    fill(path)
    file = save(path, tmp_path)
    with pytest.raises(StorageError, match="File exists"):
        save(path, tmp_path)
    with pytest.raises(StorageError, match="--replace deletes it first"):
        restore(file, [path], replaces=False)


def test_a_damaged_backup_changes_nothing(path: str, tmp_path: Path) -> None:
    fill(path)
    before = rows(path)
    data = Path(save(path, tmp_path)).read_bytes()
    middle = data.index(b"SQLite format 3") + 5000
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
    assert names == ["manifest.json", "shard-0.db"]
    damaged = {
        "garbled": data[:middle] + b"x" + data[middle + 1 :],
        "cut": data[:middle],
        "no tar": b"x" * 2000,
        "empty": b"",
        "of another format": data.replace(b"phalanx-backup/1", b"phalanx-backup/9"),
    }
    for name, content in damaged.items():
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(StorageError) as raised:
            restore(str(file), [path], replaces=True)
        assert isinstance(raised.value, StorageCorruptError) == (name != "of another format"), name
    assert rows(path) == before
    assert not [one for one in os.listdir(os.path.dirname(path)) if "restored" in one]
