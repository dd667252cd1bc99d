"""How long a crashing actor rests before it is started again, and that the head waits for this
long.
"""

from __future__ import annotations

import pytest

from phalanx.head.actors.crash_pauses import CrashPauses
from phalanx.model.crash_pauses import LONGEST_PAUSE_S, STEADY_S

A, B = b"a", b"b"


def test_pauses_grow_up_to_a_bound():
    pauses = CrashPauses()
    rests = [pauses.on_crash(A, 0.0) for _ in range(10)]
    assert rests == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *[LONGEST_PAUSE_S] * 3])
    assert [pauses.on_crash(A, 0.0) for _ in range(5000)] == [LONGEST_PAUSE_S] * 5000
    assert pauses.on_crash(B, 0.0) == 0
    assert (pauses.count(A), pauses.count(B)) == (5010, 1)


def test_who_has_lived_for_long_is_well_again():
    pauses = CrashPauses()
    for _ in range(3):
        pauses.on_alive(A, 0.0)
        rest = pauses.on_crash(A, STEADY_S - 1)
    assert rest > 0
    pauses.on_alive(A, 100.0)
    pauses.on_alive(A, 105.0)  # told again, it has lived since the first time
    assert pauses.on_crash(A, 100.0 + STEADY_S) == 0
    assert pauses.on_crash(A, 100.0 + STEADY_S) > 0


def test_the_dead_are_forgotten():
    pauses = CrashPauses()
    pauses.on_crash(A, 0.0)
    pauses.forget(A)
    assert pauses.count(A) == 0
    assert pauses.on_crash(A, 0.0) == 0
