"""A question to several at once: who has answered, who still has to, and until when."""

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
    """Rounds of questions that are under way. Each ends once, with the answers and those who gave
    none, when all have answered or are gone, or when its time is up."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._rounds: dict[int, _Round[T]] = {}

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._rounds)

    def begin(
        self,
        asked: Iterable[bytes],
        until: float,
        ask: Callable[[int], None],
        finish: Callable[[dict[bytes, T], list[bytes]], None],
    ) -> None:
        """Begin a round. `ask(number)` sends the question. `finish(answers, silent)` is called at
        its end, and at once when nobody is asked."""
        number = next(self._numbers)
        self._rounds[number] = _Round(dict.fromkeys(asked), until, {}, finish)
        ask(number)
        self._look(number)

    def answered(self, who: bytes, number: int, answer: T) -> None:
        """An answer; it counts if this one was asked and has not answered yet."""
        found = self._rounds.get(number)
        if found is not None and who in found.waits_for:
            del found.waits_for[who]
            found.answers[who] = answer
            self._look(number)

    def gone(self, who: bytes) -> None:
        """One of those asked will not answer, as it is not there any more: it has nothing left
        to tell of, so it is not counted as silent."""
        for number, found in list(self._rounds.items()):
            found.waits_for.pop(who, None)
            self._look(number)

    def tick(self, now: float) -> None:
        """Time has passed."""
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
