"""A process's own time: it advances while the process reads it regularly, and stops while the
process is stopped.
"""

from __future__ import annotations

import threading

import pytest

from phalanx.model.own_time import COUNTED_S, PAUSE_S, OwnTime


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("steps", "passed"),
    [
        ((0.05, 0.05, 1.0), 1.1),
        ((PAUSE_S,), PAUSE_S),  # a busy machine is no pause
        ((20.0,), COUNTED_S),
        ((0.05, 20.0, 0.05), 0.1 + COUNTED_S),
        ((20.0, 0.001, 3600.0), 0.001 + 2 * COUNTED_S),
        ((0.0, 0.0), 0.0),
    ],
)
def test_what_passes_of_a_time_looked_at_in_these_steps(steps, passed):
    clock = Clock()
    own_time = OwnTime(clock)
    began, real = own_time(), clock.now
    for step in steps:
        clock.now += step
        own_time()
    assert own_time() - began == pytest.approx(passed)
    assert own_time.paused_s == pytest.approx(clock.now - real - passed)


def test_threads_that_look_at_once_count_a_pause_once():
    clock = Clock()
    own_time = OwnTime(clock)
    began = own_time()
    together = threading.Barrier(8)
    seen = []

    def look() -> None:
        together.wait()
        seen.append(own_time() - began)

    for _ in range(50):
        clock.now += 100.0
        threads = [threading.Thread(target=look) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert own_time() - began == pytest.approx(50 * COUNTED_S)
    assert max(seen) <= own_time() - began
