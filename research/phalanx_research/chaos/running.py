"""Simulated code that takes time: a generator that yields whatever it waits for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

Resume = Callable[[Any], None]
Wait = Callable[[Resume], None]
"""Begins to wait, and calls back once with what came of it."""
Body = Generator[Wait, Any, Any]


class Interrupted(Exception):
    """Raised where the code waits, when it is to stop."""


class Running:
    """One run of such code, from its start to its end."""

    def __init__(self, body: Body, on_end: Callable[[Any], None]) -> None:
        """`on_end` is called with what the body returns."""
        self._body = body
        self._on_end = on_end
        self._turn = 0
        """Counts waits: an answer to an earlier one is too late."""
        self._go(lambda: self._body.send(None))

    def _go(self, step: Callable[[], Wait]) -> None:
        self._turn += 1
        turn = self._turn
        try:
            wait = step()
        except StopIteration as end:
            self._on_end(end.value)
            return
        wait(lambda value: self._resume(turn, value))

    def _resume(self, turn: int, value: Any) -> None:
        if turn == self._turn:
            self._go(lambda: self._body.send(value))

    def interrupt(self) -> None:
        """Have the code stop where it waits now."""
        self._go(lambda: self._body.throw(Interrupted()))

    def abandon(self) -> None:
        """Its process is gone: nothing of it happens any more."""
        self._turn += 1
