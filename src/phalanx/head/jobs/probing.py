"""Probes ports of members, for flows whose next step waits until the ports answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from phalanx.model.jobs.spec import Probe

LOOK_EVERY_S = 0.25


class Watch(NamedTuple):
    """Identifies probe `number` of a flow's step."""

    flow: str
    step: str
    number: int


class Question(NamedTuple):
    """A probe, and the addresses to try: the probe passes if any of them answers."""

    watch: Watch
    probe: Probe
    addresses: list[str]


class Prober(Protocol):
    """Probes addresses in the background."""

    def ask(self, questions: list[Question]) -> None:
        """Start the probes. Callers must first have the answers to their previous questions."""
        ...

    def answers(self) -> list[Watch] | None:
        """Return the watches of the last questions whose probes passed; None while any probe is
        running.
        """
        ...


class NoAnswers:
    """The prober of heads whose members have no ports: no probe ever passes."""

    def ask(self, questions: list[Question]) -> None:
        """Do nothing."""

    def answers(self) -> list[Watch] | None:
        """Return an empty list, because no probe ever passes."""
        return []


AddressesOf = Callable[[Watch, Probe], list[str] | None]
"""Returns the addresses of the members that a probe is about; None if the probe is no longer
needed.
"""


class Probing:
    """The probes that have not passed yet. `tick` calls `passed` for each probe that passes."""

    def __init__(
        self, prober: Prober, addresses_of: AddressesOf, passed: Callable[[Watch], None]
    ) -> None:
        self._prober = prober
        self._addresses_of = addresses_of
        self._passed = passed
        self._probes: dict[Watch, Probe] = {}
        self._next = 0.0
        self._is_asking = False

    def add(self, watch: Watch, probe: Probe) -> None:
        """Add a probe; `passed` is called when it passes."""
        self._probes[watch] = probe

    def tick(self, now: float) -> None:
        """Report the probes that passed, and repeat all other probes. `now` is in seconds of a
        monotonic clock.
        """
        if self._is_asking:
            answers = self._prober.answers()
            if answers is None:
                return
            self._is_asking = False
            for watch in answers:
                if self._probes.pop(watch, None) is not None:
                    self._passed(watch)
        if not self._probes or now < self._next:
            return
        self._next = now + LOOK_EVERY_S
        questions = []
        for watch, probe in list(self._probes.items()):
            addresses = self._addresses_of(watch, probe)
            if addresses is None:
                del self._probes[watch]
            elif addresses:
                questions.append(Question(watch, probe, addresses))
        if questions:
            self._is_asking = True
            self._prober.ask(questions)
