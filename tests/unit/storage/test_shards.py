"""A store of several shards, which looks like one: which rows are in the same shard, and which
order is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from phalanx.storage.errors import StaleEpochError, StorageError, StorageFullError
from phalanx.storage.memory import MemoryDisk, MemoryShard
from phalanx.storage.opening import open_storage
from phalanx.storage.shard import Batch
from phalanx.storage.storage import Storage

from .conftest import BY_KEY, Place

ROUTES = [b"%04d" % at for at in range(200)]


def _open(disks: list[MemoryDisk], by_key: Mapping[str, int] = BY_KEY) -> Storage:
    return Storage([MemoryShard(disk) for disk in disks], by_key=by_key)


def test_rows_that_agree_in_their_route_stand_together_and_others_are_spread() -> None:
    disks = [MemoryDisk() for _ in range(3)]
    storage = _open(disks)
    for route in ROUTES:
        storage.apply({("lineage", route): b"task", ("objects", route + b"-7"): b"object"})
    for disk in disks:
        tasks = set(disk.tables["lineage"])
        assert {key[:4] for key in disk.tables["objects"]} == tasks
        assert len(ROUTES) / 6 < len(tasks) < len(ROUTES) / 2


def test_tables_that_are_not_spread_live_together_in_the_first_shard() -> None:
    disks = [MemoryDisk() for _ in range(3)]
    storage = _open(disks)
    storage.apply({("nodes", route): b"" for route in ROUTES} | {("names", b"n"): b""})
    assert [sorted(disk.tables) for disk in disks] == [["names", "nodes"], [], []]
    assert [key for key, _ in storage.load("nodes")] == ROUTES


def test_a_spread_table_is_loaded_in_the_order_of_keys() -> None:
    storage = _open([MemoryDisk() for _ in range(3)])
    storage.apply({("objects", route + b"x"): route for route in reversed(ROUTES)})
    assert list(storage.load("objects")) == [(route + b"x", route) for route in ROUTES]
    assert [value for _, value in storage.load("objects", b"00")] == ROUTES[:100]
    assert [value for _, value in storage.load("objects", b"0042x")] == [b"0042"]


class _Full(MemoryShard):
    def apply(self, batch: Batch) -> None:
        raise StorageFullError("no room")


def test_the_first_shard_is_written_last_and_not_at_all_when_another_fails() -> None:
    disks = [MemoryDisk(), MemoryDisk()]
    storage = Storage([MemoryShard(disks[0]), _Full(disks[1])], by_key={"objects": 4})
    batch = {("objects", route): b"" for route in ROUTES} | {("nodes", b"n"): b""}
    for _ in range(2):
        with pytest.raises(StorageFullError):
            storage.apply(batch)
    assert disks[0].tables == {}


def _swapped(disks: list[MemoryDisk]) -> Storage:
    return _open(disks[::-1])


def _one_less(disks: list[MemoryDisk]) -> Storage:
    return _open(disks[:2])


def _one_more(disks: list[MemoryDisk]) -> Storage:
    return _open([*disks, MemoryDisk()])


def _other_routes(disks: list[MemoryDisk]) -> Storage:
    return _open(disks, {"objects": 8})


@pytest.mark.parametrize(
    ("reopen", "said"),
    [
        (_swapped, r"written as shard 3 of 3 .* now named as shard 1 of 3"),
        (_one_less, r"shard 1 of 3 .* shard 1 of 2"),
        (_one_more, r"shard 1 of 3 .* shard 1 of 4"),
        (_other_routes, r"lineage:4, objects:4\).*\(objects:8\)"),
    ],
)
def test_shards_are_refused_when_rows_would_not_be_found(
    reopen: Callable[[list[MemoryDisk]], Storage], said: str
) -> None:
    disks = [MemoryDisk() for _ in range(3)]
    _open(disks)
    epochs = [disk.head.epoch for disk in disks]
    with pytest.raises(StorageError, match=said):
        reopen(disks)
    assert [disk.head.epoch for disk in disks] == epochs


def test_an_opening_that_stopped_half_way_does_not_keep_the_next_one_out() -> None:
    disks = [MemoryDisk() for _ in range(2)]
    _open(disks)
    disks[1].head = disks[1].head._replace(epoch=9)
    assert _open(disks).epoch == 10


def test_a_head_that_is_stale_in_one_shard_stops_everywhere() -> None:
    disks = [MemoryDisk() for _ in range(2)]
    storage = _open(disks)
    disks[1].head = disks[1].head._replace(epoch=9)
    with pytest.raises(StaleEpochError):
        storage.apply({("objects", route): b"" for route in ROUTES})
    with pytest.raises(StaleEpochError):
        storage.apply({("nodes", b"n"): b""})
    assert disks[0].tables == {}


def test_a_shard_that_cannot_be_opened_leaves_none_open(
    make_place: Callable[[str], Place],
) -> None:
    place = make_place("sqlite")
    with pytest.raises(StorageError):
        open_storage([*place.addresses, "sqlite:/proc/none/head.db"])
    place.open()
