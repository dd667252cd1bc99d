"""Control stores for tests, on a clock that the test moves."""

from __future__ import annotations

import random

from phalanx.head.control_plane import NOTHING_STORED, ControlPlane
from phalanx.head.jobs.probing import NoAnswers
from phalanx.head.outbox import Outbox
from phalanx.head.state_store import StateStore


class TestClock:
    """Both of its times are what `now` says."""

    __test__ = False

    def __init__(self, now):
        self.now = self.wall = now


def raise_defect(error):
    raise error


def make_control(send, now, *, rng=None, journal=None, stored=NOTHING_STORED, **options):
    """A control store that sends through `send` and reads the time from `now`."""
    state_store = StateStore(journal)
    return ControlPlane(
        Outbox(send, state_store),
        state_store,
        TestClock(now),
        rng or random.Random(0),
        NoAnswers(),
        stored=stored,
        **{"report_defect": raise_defect, **options},
    )
