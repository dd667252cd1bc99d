"""The benchmark of large objects, run with small objects."""

from __future__ import annotations

import time

import pytest

import phalanx
from phalanx_benchmarks import large_objects, many_processes


@pytest.fixture(autouse=True)
def no_runtime():
    phalanx.shutdown()
    yield
    phalanx.shutdown()


def test_a_row_of_a_broadcast_and_one_of_a_shuffle():
    broadcast, shuffle = large_objects.run(
        time.perf_counter, broadcast_mib=1, nodes=2, shuffle_gb=0.02, parts=5, store_mib=128
    )
    assert broadcast["what"] == "1 MiB to 2 nodes"
    assert broadcast["most copies given by one node"] == 2
    assert shuffle["what"] == "0.0 GB from 2 tasks to 5"
    assert shuffle["s"] > 0


def test_tasks_of_many_owners_are_counted():
    row = many_processes._owners(time.perf_counter, 2, 10)
    assert row["what"] == "20 tasks of 2 owners queued"
    assert row["per s"] > 0
