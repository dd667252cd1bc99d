"""A separate runtime for each test that kills processes."""

from __future__ import annotations

import pytest
from tests.system.chaos.footprint import Footprint
from tests.warm import cold_starts

import phalanx


@pytest.fixture(scope="package", autouse=True)
def cold():
    """Start processes without the warm parent, because these tests look for the processes that a
    user would see.
    """
    with cold_starts():
        yield


@pytest.fixture
def start():
    """Yield a function that starts a runtime with these options, and returns its footprint. The
    runtime is ended after the test.
    """
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
