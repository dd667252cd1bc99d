"""Sends a question to several processes at the same time, and keeps the answers so far, the
processes that have not answered, and the deadline.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Round(Generic[T]):
    waits_for: dict[bytes, None]
    until: float
    answers: dict[bytes, T]
    finish: Callable[[dict[bytes, T], list[bytes]], None]


class Gathering(Generic[T]):
    """The rounds of questions that have not ended.

    A round ends when all asked processes have answered or ended, or when its time is over. Its
    result is the answers and the list of silent processes.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._rounds: dict[int, _Round[T]] = {}

    def __len__(self) -> int:
        """Return the number of rounds that have not ended."""
        return len(self._rounds)

    def begin(
        self,
        asked: Iterable[bytes],
        until: float,
        ask: Callable[[int], None],
        finish: Callable[[dict[bytes, T], list[bytes]], None],
    ) -> None:
        """Begin a round.

        `ask(number)` sends the question. `finish(answers, silent)` is called at the round's end; if
        no process is asked, it is called immediately.
        """
        number = next(self._numbers)
        self._rounds[number] = _Round(dict.fromkeys(asked), until, {}, finish)
        ask(number)
        self._look(number)

    def answered(self, who: bytes, number: int, answer: T) -> None:
        """Record an answer, if the process was asked and has not answered yet."""
        found = self._rounds.get(number)
        if found is not None and who in found.waits_for:
            del found.waits_for[who]
            found.answers[who] = answer
            self._look(number)

    def on_process_end(self, who: bytes) -> None:
        """Stop waiting for a process that has ended. It does not count as silent, because it has
        nothing left to report.
        """
        for number, found in list(self._rounds.items()):
            found.waits_for.pop(who, None)
            self._look(number)

    def tick(self, now: float) -> None:
        """End the rounds whose time is over."""
        for number, found in list(self._rounds.items()):
            if now > found.until:
                self._end(number)

    def _look(self, number: int) -> None:
        found = self._rounds.get(number)
        if found is not None and not found.waits_for:
            self._end(number)

    def _end(self, number: int) -> None:
        found = self._rounds.pop(number)
        found.finish(found.answers, list(found.waits_for))
