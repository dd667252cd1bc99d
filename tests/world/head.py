"""Heads, and requests to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import msgspec
from tests.world.clock import ManualClock

from phalanx.head.clock import MachineClock
from phalanx.head.head import NOTHING_STORED, Head
from phalanx.head.jobs.probing import NoAnswers
from phalanx.head.outbox import Outbox
from phalanx.head.rights.control import ONE_PERSON, RightsSetup
from phalanx.head.setup import HeadSetup, HeadShell
from phalanx.head.state_store import StateStore, StoredState
from phalanx.protocol.requests.request import Asker, Request, Role, encode_request, read_result
from phalanx.protocol.wire_errors import WireError

R = TypeVar("R")


def raise_defect(error: Exception) -> NoReturn:
    raise error


_OF_SHELL = {"boot", "ledger", "look", "read_log", "report_defect"}


def make_head(
    send: Callable[[bytes, Any], None],
    clock: MachineClock | None = None,
    *,
    rng: random.Random | None = None,
    journal: Any = None,
    stored: StoredState = NOTHING_STORED,
    rights: RightsSetup = ONE_PERSON,
    **options: Any,
) -> Head:
    """Return a head that sends through `send`, by default on a clock that stands still.

    `options` are those of HeadShell and HeadSetup.
    """
    state_store = StateStore(journal)
    of_shell = {name: options.pop(name) for name in _OF_SHELL & options.keys()}
    return Head(
        Outbox(send, state_store),
        state_store,
        HeadShell(
            clock=clock or ManualClock(),
            rng=rng or random.Random(0),
            prober=NoAnswers(),
            **{"report_defect": raise_defect, **of_shell},
        ),
        stored=stored,
        setup=HeadSetup(**options),
        rights=rights,
    )


def ask(head: Head, request: Request[R], process: bytes = bytes(16)) -> R | None:
    """Return the answer of a head to a process; None if it answers later. Raises the head's
    error.
    """
    replies: list[tuple[msgspec.Raw, WireError | None]] = []
    asker: Asker[R] = Asker(Role.PROCESS, process, lambda *reply: replies.append(reply))
    head.answering.handlers_of(request.kind).answer(request.kind, encode_request(request), asker)
    return read_result(request, *replies[0]) if replies else None
