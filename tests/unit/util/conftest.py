"""A runtime with two CPUs for each module of tests that uses the fixture `ray`."""

from __future__ import annotations

import pytest

import phalanx


@pytest.fixture(scope="module")
def ray():
    phalanx.shutdown()
    phalanx.init(num_cpus=2)
    yield phalanx
    phalanx.shutdown()


@pytest.fixture
def gate(tmp_path):
    """Return a gate: calls that `pass_through` wait there until the test opens it."""

    class Gate:  # local, so that it travels to workers by value
        def __init__(self, door):
            self.door = door

        def pass_through(self, value=None):
            import time

            deadline = time.monotonic() + 120
            while not self.door.exists():
                if time.monotonic() > deadline:
                    raise TimeoutError("nobody opened the gate")
                time.sleep(0.005)
            return value

        def open(self):
            self.door.touch()

    made = Gate(tmp_path / "door")
    yield made
    made.open()
