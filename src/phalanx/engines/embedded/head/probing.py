"""Asking ports of members whether they answer, for flows whose next step waits for that.

A thread of its own asks: somebody who takes connections and says nothing keeps nobody else waiting.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

from phalanx.model.jobs.spec import Probe

LOOK_EVERY_S = 0.25
ANSWER_S = 2.0
"""Who has not answered by then is asked again."""


class Watch(NamedTuple):
    """Probe `number` of a flow's step."""

    flow: str
    step: str
    number: int


AddressesOf = Callable[[Watch, Probe], list[str] | None]
"""Where the members are that a probe is about; None when nobody waits for it any more."""


class Probing:
    """Probes that have not passed yet. `passed` is told of those that have, within `tick`."""

    def __init__(self, addresses_of: AddressesOf, passed: Callable[[Watch], None]) -> None:
        self._addresses_of = addresses_of
        self._passed = passed
        self._probes: dict[Watch, Probe] = {}
        self._next = 0.0
        self._asking: threading.Thread | None = None
        self._answered: list[Watch] = []

    def add(self, watch: Watch, probe: Probe) -> None:
        """Say when this passes."""
        self._probes[watch] = probe

    def tick(self, now: float) -> None:
        """Time has passed: tell what has answered, and ask again. `now` in seconds, monotonic."""
        if self._asking is not None:
            if self._asking.is_alive():
                return
            self._asking = None
            answered, self._answered = self._answered, []
            for watch in answered:
                if self._probes.pop(watch, None) is not None:
                    self._passed(watch)
        if not self._probes or now < self._next:
            return
        self._next = now + LOOK_EVERY_S
        asked = []
        for watch, probe in list(self._probes.items()):
            addresses = self._addresses_of(watch, probe)
            if addresses is None:
                del self._probes[watch]
            elif addresses:
                asked.append((watch, probe, addresses))
        if asked:
            self._asking = threading.Thread(target=self._ask, args=(asked,), daemon=True)
            self._asking.start()

    def _ask(self, asked: list[tuple[Watch, Probe, list[str]]]) -> None:
        for watch, probe, addresses in asked:
            if any(_answers(probe, address) for address in addresses):
                self._answered.append(watch)


def _answers(probe: Probe, address: str) -> bool:
    """Whether the port takes a connection, or answers a GET with a status below 400."""
    from http.client import HTTPConnection, HTTPException

    try:
        if probe.kind == "tcpSocket":
            socket.create_connection((address, probe.port), ANSWER_S).close()
            return True
        connection = HTTPConnection(address, probe.port, timeout=ANSWER_S)
        try:
            connection.request("GET", probe.path or "/")
            return 200 <= connection.getresponse().status < 400
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):  # of a path that no request can have
        return False
