"""The store in a key-value store, in addition to what all stores must guarantee: images, logs and
late writers.
"""

from __future__ import annotations

import pytest

from phalanx.adapters.ray.scheduler import kv_shard
from phalanx.adapters.ray.scheduler.kv_shard import KvShard
from phalanx.storage.errors import StaleEpochError, StorageUnreachableError
from phalanx.storage.shard import Head
from phalanx.storage.storage import Storage

from .conftest import KeyValues


def test_a_long_log_is_folded_into_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_shard, "MIN_LOG_BYTES", 100)
    values = KeyValues()
    storage = Storage([KvShard(values)])
    for at in range(500):
        storage.apply({("jobs", b"%d" % (at % 7)): b"%05d" % at})
    assert len(values.rows) < 30
    again = Storage([KvShard(values)])
    assert sorted(value for _, value in again.load("jobs")) == [
        b"%05d" % at for at in range(493, 500)
    ]


def test_what_a_late_writer_appends_is_read_by_nobody() -> None:
    values = KeyValues()
    late = Storage([KvShard(values)])
    late.apply({("jobs", b"a"): b"1"})
    head = Storage([KvShard(values)])
    with pytest.raises(StaleEpochError, match="epoch 2, and this one has 1"):
        late.apply({("jobs", b"a"): b"2"})
    assert head.get("jobs", b"a") == b"1"
    head.close()
    assert Storage([KvShard(values)]).get("jobs", b"a") == b"1"


def test_a_batch_of_nothing_writes_nothing() -> None:
    values = KeyValues()
    storage = Storage([KvShard(values)])
    storage.apply({("jobs", b"a"): b"1"})
    before = dict(values.rows)
    storage.apply({})
    assert values.rows == before


def test_an_epoch_is_claimed_once() -> None:
    values = KeyValues()
    first, second = KvShard(values), KvShard(values)
    first.claim(Head(1, "1 of 1"))
    with pytest.raises(StaleEpochError):
        second.claim(Head(1, "1 of 1"))


def test_a_claim_that_was_interrupted_loses_nothing() -> None:
    values = KeyValues()
    Storage([KvShard(values)]).apply({("jobs", b"a"): b"1"})
    images = values.rows.copy()
    Storage([KvShard(values)])
    interrupted = {key for key in values.rows if key.startswith(b"epoch/")}
    values.rows = images | {key: values.rows[key] for key in interrupted}
    storage = Storage([KvShard(values)])
    assert storage.epoch == 3
    assert storage.get("jobs", b"a") == b"1"


def test_an_absent_store_is_said_to_be_unreachable() -> None:
    values = KeyValues()
    storage = Storage([KvShard(values, "Ray's key-value store")])

    def fail(*_: object) -> bool:
        raise RuntimeError("no head")

    vars(values)["put_new"] = fail
    with pytest.raises(StorageUnreachableError, match="Ray's key-value store does not answer"):
        storage.apply({("jobs", b"a"): b"1"})
