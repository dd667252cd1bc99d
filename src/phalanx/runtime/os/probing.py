"""Probes ports of members in a thread, so that a silent port delays nothing else."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phalanx.head.jobs.probing import Question, Watch
    from phalanx.model.jobs.spec import Probe

ANSWER_S = 2.0
"""Seconds within which a port must answer. Otherwise it is asked again later."""


class ThreadProber:
    """Probes ports in a thread, one batch of ports at a time."""

    def __init__(self) -> None:
        self._asking: threading.Thread | None = None
        self._answered: list[Watch] = []

    def ask(self, questions: list[Question]) -> None:
        """Begin to ask ports whether they answer."""
        self._answered = []
        self._asking = threading.Thread(target=self._ask, args=(questions,), daemon=True)
        self._asking.start()

    def answers(self) -> list[Watch] | None:
        """Return the watches whose ports answered; None while the thread asks ports."""
        if self._asking is not None and self._asking.is_alive():
            return None
        return self._answered

    def _ask(self, questions: list[Question]) -> None:
        for watch, probe, addresses in questions:
            if any(_answers(probe, address) for address in addresses):
                self._answered.append(watch)


def _answers(probe: Probe, address: str) -> bool:
    """Whether the port accepts a connection or, for HTTP, answers a GET with a status below 400."""
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
    except (OSError, HTTPException, ValueError):  # ValueError: a path that no request can have
        return False
