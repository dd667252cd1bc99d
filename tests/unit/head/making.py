"""Control stores for tests, on a clock that the test moves."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NoReturn

from phalanx.head.head import NOTHING_STORED, Head
from phalanx.head.jobs.probing import NoAnswers
from phalanx.head.outbox import Outbox
from phalanx.head.state_store import StateStore, StoredState


class TestClock:
    """All of its times are what `now` says, unless `wall` says another wall-clock time, or
    `monotonic` another time of the machine."""

    __test__ = False

    def __init__(
        self,
        now: Callable[[], float],
        wall: Callable[[], float] | None = None,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self.now, self.wall, self.monotonic = now, wall or now, monotonic or now


def raise_defect(error: Exception) -> NoReturn:
    raise error


def make_control(
    send: Callable[[bytes, Any], None],
    now: Callable[[], float],
    *,
    rng: random.Random | None = None,
    journal: Any = None,
    stored: StoredState = NOTHING_STORED,
    wall: Callable[[], float] | None = None,
    **options: Any,
) -> Head:
    """A control store that sends through `send` and reads the time from `now`, and the wall-clock
    time from `wall`, which is the same where it is left out."""
    state_store = StateStore(journal)
    return Head(
        Outbox(send, state_store),
        state_store,
        TestClock(now, wall),
        rng or random.Random(0),
        NoAnswers(),
        stored=stored,
        **{"report_defect": raise_defect, **options},
    )
