"""Heads for tests, on a clock that the test moves."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NoReturn

from phalanx.head.head import NOTHING_STORED, Head
from phalanx.head.jobs.probing import NoAnswers
from phalanx.head.outbox import Outbox
from phalanx.head.rights.control import ONE_PERSON, RightsSetup
from phalanx.head.setup import HeadSetup, HeadShell
from phalanx.head.state_store import StateStore, StoredState

_OF_SHELL = {"boot", "ledger", "look", "read_log", "report_defect"}


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
    rights: RightsSetup = ONE_PERSON,
    **options: Any,
) -> Head:
    """A head that sends through `send` and reads the time from `now`, and the wall-clock time from
    `wall`, which is the same where it is left out. `options`: for HeadShell and
    HeadSetup."""
    state_store = StateStore(journal)
    of_shell = {name: options.pop(name) for name in _OF_SHELL & options.keys()}
    return Head(
        Outbox(send, state_store),
        state_store,
        HeadShell(
            clock=TestClock(now, wall),
            rng=rng or random.Random(0),
            prober=NoAnswers(),
            **{"report_defect": raise_defect, **of_shell},
        ),
        stored=stored,
        setup=HeadSetup(**options),
        rights=rights,
    )
