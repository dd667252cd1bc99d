"""A runtime of one's own for each test that kills things."""

from __future__ import annotations

import pytest
from tests.system.chaos.footprint import Footprint
from tests.warm import cold_starts

import phalanx


@pytest.fixture(scope="package", autouse=True)
def cold():
    """These tests look for the processes that a user would see."""
    with cold_starts():
        yield


@pytest.fixture
def start():
    """Start a runtime with these options; its footprint. It is gone after the test."""
    started = []

    def begin(**options):
        phalanx.shutdown()
        found = Footprint.of(phalanx.init(log_to_driver=False, **options))
        started.append((found, found.processes()))
        return found

    yield begin
    phalanx.shutdown()
    for found, pids in started:
        found.wait_gone(pids)


@pytest.fixture
def ray():
    return phalanx
