"""From another head's batches a standby concludes whether that head still holds the store."""

from __future__ import annotations

import pytest

from phalanx.storage.errors import StorageAddressError, StorageUnreachableError
from phalanx.storage.lease import BEAT_S, LEASE_S, Lease, needs_beats, open_lease
from phalanx.storage.opening import open_storage
from phalanx.storage.shard import Head
from phalanx_benchmarks.redis_server import RedisServer


class Shard:
    """A shard on a server to which another head writes."""

    def __init__(self, head):
        self.found = head
        self.is_full = False

    def head(self):
        if self.found is None:
            raise StorageUnreachableError("no answer")
        return self.found

    def shortage(self):
        return "full" if self.is_full else ""

    def close(self):
        pass


def test_a_store_that_nobody_has_written_is_free_at_once():
    assert Lease(Shard(Head())).is_free(0.0)


def test_a_head_that_writes_keeps_its_store():
    shard = Shard(Head(epoch=1, sequence=1))
    lease = Lease(shard)
    for second in range(100):
        shard.found = Head(epoch=1, sequence=1 + second)
        assert not lease.is_free(second * BEAT_S)


def test_a_head_that_stopped_writing_loses_its_store_after_the_lease():
    lease = Lease(Shard(Head(epoch=3, sequence=7)))
    assert not lease.is_free(100.0)
    assert not lease.is_free(100.0 + LEASE_S - 0.1)
    assert lease.is_free(100.0 + LEASE_S)


def test_a_new_head_has_a_new_lease():
    shard = Shard(Head(epoch=3, sequence=7))
    lease = Lease(shard)
    assert not lease.is_free(0.0)
    shard.found = Head(epoch=4, sequence=0)
    assert not lease.is_free(LEASE_S)
    assert lease.is_free(2 * LEASE_S)


@pytest.mark.parametrize("trouble", ["unreachable", "full"])
def test_time_in_which_no_head_could_write_does_not_count(trouble):
    shard = Shard(Head(epoch=1, sequence=1))
    lease = Lease(shard)
    assert not lease.is_free(0.0)
    found = shard.found
    if trouble == "full":
        shard.is_full = True
    else:
        shard.found = None
    assert not lease.is_free(10 * LEASE_S)
    shard.found, shard.is_full = found, False
    assert not lease.is_free(10 * LEASE_S + 1)
    assert lease.is_free(11 * LEASE_S + 1)


def test_a_head_that_ended_in_order_leaves_its_store_at_once():
    shard = Shard(Head(epoch=3, sequence=7))
    lease = Lease(shard)
    assert not lease.is_free(0.0)
    shard.found = Head(epoch=3, sequence=8, is_released=True)
    assert lease.is_free(0.1)
    assert Lease(shard).is_free(0.0), "a head that starts need not wait, either"
    shard.is_full = True
    assert not lease.is_free(0.2)
    shard.found = Head(epoch=4)
    shard.is_full = False
    assert not lease.is_free(0.3), "the next head has a lease of its own"


def test_batches_in_a_real_server_keep_the_lease(redis_server):
    url = f"{redis_server.url}&name=lease"
    lease = open_lease([url])
    assert lease.is_free(0.0)
    storage = open_storage(url)
    assert not lease.is_free(0.0)
    storage.apply({("counters", b"beat"): b""})
    assert not lease.is_free(LEASE_S)
    storage.apply({("counters", b"beat"): b""})
    assert not lease.is_free(2 * LEASE_S)
    assert lease.is_free(3 * LEASE_S)
    storage.close()
    lease.close()


def test_a_closed_store_in_a_real_server_is_free(redis_server):
    url = f"{redis_server.url}&name=released"
    lease = open_lease([url])
    former, next_one = open_storage(url), open_storage(url)
    former.close()
    assert not lease.is_free(0.0), "a former head cannot release the store of the next one"
    next_one.close()
    assert lease.is_free(0.0)
    last = open_storage(url)
    assert not lease.is_free(0.0)
    last.close()
    lease.close()


def test_a_server_that_went_away_does_not_stop_a_head_from_ending(short_directory):
    with RedisServer(str(short_directory / "r")) as server:
        storage = open_storage(server.url)
        server.kill()
        storage.close()
        server.start()
        lease = open_lease([server.url])
        assert not lease.is_free(0.0)
        lease.close()


@pytest.mark.parametrize("store", ["memory", "/somewhere/head.db", "sqlite:/somewhere/head.db"])
def test_only_a_store_in_a_server_has_a_lease(store):
    assert not needs_beats([store])
    with pytest.raises(StorageAddressError, match="a standby needs a store that both machines"):
        open_lease([store])
