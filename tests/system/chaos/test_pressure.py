"""More objects than fit in memory are spilled, read back equal, and deleted at the end; a task that
takes too much memory is ended.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

import psutil
import pytest
from tests.polling import eventually
from tests.present import present

from phalanx import exceptions as errors
from phalanx.protocol.requests.node import GetStoreCounts
from phalanx.runtime.driver import starting
from phalanx.runtime.driver.own_node import StartOptions
from phalanx.runtime.engine.interface import current

MIB = 1 << 20


def pattern(i, size=8 * MIB):
    return hashlib.sha256(str(i).encode()).digest() * (size // 32)


def test_objects_beyond_memory_are_spilled_and_read_back_equal(start, ray):
    footprint = start(num_cpus=2, object_store_memory=80 * MIB)

    @ray.remote
    def make(i):
        return pattern(i)

    @ray.remote
    def check(value, i):
        return value == pattern(i)

    mine = [ray.put(pattern(i)) for i in range(12)]
    theirs = [make.remote(i) for i in range(12, 24)]
    ray.wait(theirs, num_returns=len(theirs), timeout=120)
    assert footprint.spilled(), "nothing was spilled"
    both = mine + theirs
    assert all(ray.get(ref, timeout=120) == pattern(i) for i, ref in enumerate(both))
    assert all(ray.get([check.remote(ref, i) for i, ref in enumerate(both)], timeout=120))
    del mine, theirs, both

    def is_empty():
        counts = present(current()).ask(GetStoreCounts())
        return not counts["objects"] and not counts["spilled_objects"]

    eventually(lambda: ray.put(b"") and is_empty(), "the end of all objects")
    assert not footprint.spilled()


def test_an_object_larger_than_the_store_goes_to_disk_and_leaves_it(start, ray):
    footprint = start(num_cpus=1, object_store_memory=80 * MIB)
    large = ray.put(pattern(2, 100 * MIB))
    small = ray.put(pattern(1))
    assert ray.get(large) == pattern(2, 100 * MIB)
    assert ray.get(small) == pattern(1)
    del large, small
    eventually(lambda: ray.put(b"") and not footprint.spilled(), "the end of its file")


def test_the_memory_monitor_ends_the_youngest_task_or_actor_and_says_so(start, ray, monkeypatch):
    """The limit is the memory that is in use now, plus a margin that is larger than what other
    tests may take meanwhile. The task takes all memory below the limit.
    """
    memory = psutil.virtual_memory()
    left = min(1280 * MIB, memory.available // 3)
    limit = 1 - (memory.available - left) / memory.total
    monkeypatch.setattr(
        starting, "StartOptions", lambda **o: StartOptions(**{**o, "memory_limit": limit})
    )
    start(num_cpus=2)

    def eat():
        held: list[Any] = []
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and len(held) < 400:
            held.append(bytearray(b"x" * (16 * MIB)))
            time.sleep(0.002)
        time.sleep(30)

    class Eater:
        def eat(self):
            return eat()

    @ray.remote
    def small():
        return 1

    assert ray.get(small.remote(), timeout=120) == 1
    with pytest.raises(errors.OutOfMemoryError, match=r"eat.*memory was \d+ % full"):
        ray.get(ray.remote(max_retries=0)(eat).remote(), timeout=120)
    assert ray.get(small.remote(), timeout=120) == 1
    with pytest.raises(errors.OutOfMemoryError, match=r"memory was \d+ % full") as caught:
        ray.get(ray.remote(Eater).remote().eat.remote(), timeout=120)
    assert isinstance(caught.value, errors.ActorDiedError)
