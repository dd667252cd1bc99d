"""When a wait polls repeatedly, and when it sleeps immediately."""

from __future__ import annotations

import math

from phalanx.runtime.os.adaptive_spin import MOST_SKIPPED, SPIN_S, AdaptiveSpin

LOOK_S = 1e-6
WAKE_S = 30e-6


class World:
    """A clock, and one descriptor that becomes ready when the test says so."""

    def __init__(self, processors: int = 2) -> None:
        self.now = 0.0
        self.comes_at = math.inf
        self.slept = 0
        self.looked = 0
        self.spin = AdaptiveSpin(processors, lambda: self.now)

    def look(self, timeout_s: float) -> list[str]:
        """Stands for `poll` of epoll."""
        self.now += LOOK_S
        if timeout_s == 0:
            self.looked += 1
        elif self.comes_at > self.now:
            self.slept += 1
            until = self.now + timeout_s if timeout_s > 0 else math.inf
            assert min(until, self.comes_at) < math.inf, "it would sleep for ever"
            self.now = min(until, self.comes_at) + WAKE_S
        return ["it"] if self.comes_at <= self.now else []

    def wait(self, after_s: float, timeout_s: float = -1) -> list[str]:
        """Wait for something that arrives after `after_s` seconds."""
        self.comes_at = self.now + after_s
        return self.spin.poll(self.look, timeout_s)


def test_who_is_answered_at_once_sleeps_no_more() -> None:
    world = World()
    assert world.wait(1.0) == world.wait(20e-6) == ["it"]
    assert world.slept == 2
    for _ in range(1000):
        assert world.wait(20e-6) == ["it"]
    assert world.slept == 2


def test_who_waits_for_long_does_not_look() -> None:
    world = World()
    for _ in range(1000):
        assert world.wait(0.01) == ["it"]
    assert world.looked == 0


def test_one_long_wait_is_forgotten_after_a_short_one() -> None:
    world = World()
    for _ in range(10):
        world.wait(20e-6)
    world.wait(1.0)
    slept = world.slept
    for _ in range(100):
        world.wait(20e-6)
    assert world.slept <= slept + 2


def test_looking_in_vain_is_given_up() -> None:
    """Each wait is short, but longer than the time for which the process polls, so all polling is
    in vain.
    """
    world = World()
    waits = 20 * MOST_SKIPPED
    for _ in range(waits):
        assert world.wait(SPIN_S + 10e-6) == ["it"]
    in_vain = world.looked * LOOK_S / SPIN_S
    assert in_vain <= waits / MOST_SKIPPED + math.log2(MOST_SKIPPED) + 1
    assert world.slept == waits


def test_it_is_tried_again() -> None:
    world = World()
    for _ in range(20 * MOST_SKIPPED):
        world.wait(SPIN_S + 10e-6)
    for _ in range(MOST_SKIPPED + 1):
        world.wait(20e-6)
    slept = world.slept
    for _ in range(100):
        world.wait(20e-6)
    assert world.slept == slept


def test_alone_on_one_processor_nobody_would_come_meanwhile() -> None:
    world = World(processors=1)
    for _ in range(100):
        assert world.wait(20e-6) == ["it"]
    assert world.looked == 0


def test_nothing_comes() -> None:
    world = World()
    for _ in range(3):
        world.wait(20e-6)
    began = world.now
    assert world.wait(math.inf, timeout_s=0.5) == []
    assert 0.5 <= world.now - began <= 0.5 + SPIN_S + 2 * WAKE_S
    assert world.wait(math.inf, timeout_s=0) == []
    assert world.wait(math.inf, timeout_s=10e-6) == []
