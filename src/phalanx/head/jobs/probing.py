"""Asking ports of members whether they answer, for flows whose next step waits for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from phalanx.model.jobs.spec import Probe

LOOK_EVERY_S = 0.25


class Watch(NamedTuple):
    """Probe `number` of a flow's step."""

    flow: str
    step: str
    number: int


class Question(NamedTuple):
    """Whether a probe passes at any of these addresses."""

    watch: Watch
    probe: Probe
    addresses: list[str]


class Prober(Protocol):
    """Asks, while everybody else goes on."""

    def ask(self, questions: list[Question]) -> None:
        """Begin to ask. Not before the last questions have been answered."""
        ...

    def answers(self) -> list[Watch] | None:
        """Which of the last questions were answered with yes; None while they are being asked."""
        ...


class NoAnswers:
    """A prober for heads whose members have no ports: nothing ever passes."""

    def ask(self, questions: list[Question]) -> None:
        """See Prober."""

    def answers(self) -> list[Watch] | None:
        """See Prober."""
        return []


AddressesOf = Callable[[Watch, Probe], list[str] | None]
"""Where the members are that a probe is about; None when nobody waits for it any more."""


class Probing:
    """Probes that have not passed yet. `passed` is called for those that have, within `tick`."""

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
        """Report when this passes."""
        self._probes[watch] = probe

    def tick(self, now: float) -> None:
        """Time has passed: report what has answered, and ask again. `now` in seconds, monotonic."""
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
