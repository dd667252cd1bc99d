"""Simulated code that takes time: a generator that yields whenever it waits."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

Resume = Callable[[Any], None]
Wait = Callable[[Resume], None]
"""A function that starts a wait. It calls its argument once, with the result."""
Body = Generator[Wait, Any, Any]


class Interrupted(Exception):
    """Raised in waiting code to stop it."""


class Running:
    """One run of simulated code, from its start to its end."""

    def __init__(self, body: Body, on_end: Callable[[Any], None]) -> None:
        """Start the code. `on_end` is called with the returned value."""
        self._body = body
        self._on_end = on_end
        self._turn = 0
        """The number of waits so far. Answers to earlier waits are ignored."""
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
        """Stop the code where it waits now."""
        self._go(lambda: self._body.throw(Interrupted()))

    def abandon(self) -> None:
        """Drop the code, because its process has ended."""
        self._turn += 1
