"""When a task that waits for results lends its CPUs to others."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.objects.reference import make_ref
from phalanx.runtime.driver import waiting as module
from phalanx.runtime.driver.waiting import Waiting

ME, OTHER = b"node--worker----", b"node--driver----"


class Clocked:
    """A reactor whose clock advances only while somebody waits. An owner answers after `answer_s`
    seconds.
    """

    def __init__(self, refs, answer_s):
        self.now = 0.0
        self.refs = refs
        self.answer_s = answer_s

    def monotonic(self):
        return self.now

    def wait(self, waiter, deadline=None):
        if deadline is not None and deadline < self.answer_s:
            self.now = deadline
            return False
        self.now = self.answer_s
        for ref in self.refs:
            ref._value = b"there"
        return True


@pytest.mark.parametrize(
    ("owner", "answer_s", "lends"),
    [(OTHER, 0.01, False), (OTHER, 0.1, True), (ME, 0.01, True), (ME, 0.001, False)],
    ids=["asked", "asked in vain", "own and long", "own and short"],
)
def test_what_an_owner_has_is_waited_for_without_lending(monkeypatch, owner, answer_s, lends):
    ref = make_ref(owner, 1 << 32)
    reactor: Any = Clocked([ref], answer_s)
    monkeypatch.setattr(module, "own_time", reactor.monotonic)
    objects: Any = SimpleNamespace(fetch=lambda ref: None)
    tasks: Any = SimpleNamespace(locality=SimpleNamespace(is_used=False))
    unused: Any = None
    lent: list[str] = []
    of_none: Any = lambda ref: ""  # noqa: E731
    waiting = Waiting(
        ME, reactor, nullcontext(), lambda: None, objects, unused, tasks, unused, of_none, of_none
    )

    def block():
        lent.append("block")
        return True

    waiting.running = SimpleNamespace(interrupt_due=False, block=block, unblock=lambda: None)
    assert waiting._wait([ref], 1, None)
    assert bool(lent) == lends
