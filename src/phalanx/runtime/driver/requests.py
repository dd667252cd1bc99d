"""Requests to the node, and threads that wait for the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from phalanx.errors import GetTimeoutError, LocalNodeDiedError
from phalanx.owner.requests import Requests
from phalanx.protocol.requests.request import Request
from phalanx.runtime.driver.reactor import Reactor, Waiter
from phalanx.runtime.driver.transport import NodeConnection
from phalanx.runtime.os.own_time import own_time

R = TypeVar("R")


class NodeRequests:
    """Sends requests to the node, and waits for answers."""

    def __init__(
        self,
        requests: Requests,
        node: NodeConnection,
        reactor: Reactor,
        flush: Callable[[], None],
    ) -> None:
        self._requests = requests
        self._node = node
        self._reactor = reactor
        self._flush = flush

    def ask(self, request: Request[R], timeout_s: float | None = None) -> R:
        """Send a request and wait. Raises GetTimeoutError, and any error with which the node
        answers.
        """
        asked = self.ask_async(request)
        try:
            return asked.result(timeout_s)
        finally:
            self._requests.forget(asked.token)

    def ask_async(self, request: Request[R]) -> Asked[R]:
        """Send a request with the next flush. Its answer can be read later.

        Raises LocalNodeDiedError.
        """
        if self._node.is_gone:
            raise LocalNodeDiedError("The node process of this machine has ended.")
        asked = Asked(request, self._reactor, self._flush)
        asked.token = self._requests.call_async(request, asked.answered)
        return asked

    def call(self, request: Request[Any], done: Callable[[], None]) -> None:
        """Send a request with the next flush. `done` is called once it is answered, even by an
        error.
        """
        self._requests.call_async(request, lambda answer: done())

    def notify(self, request: Request[Any]) -> None:
        """Send a request whose answer is not needed."""
        self._requests.notify(request)


class Asked(Generic[R]):
    """A request, and its answer once it has come."""

    def __init__(self, request: Request[R], reactor: Reactor, flush: Callable[[], None]) -> None:
        self._request = request
        self._reactor = reactor
        self._flush = flush
        self._waiter = Waiter()
        self._answer: Callable[[], R] | None = None
        self.token = 0

    def answered(self, answer: Callable[[], R]) -> None:
        """Store the answer, and end the wait for it."""
        self._answer = answer
        self._waiter.finish()

    @property
    def is_there(self) -> bool:
        """Whether the answer has come."""
        return self._answer is not None

    def result(self, timeout_s: float | None = None) -> R:
        """Wait for the answer and return it. Raises GetTimeoutError, and any error with which the
        node answers.
        """
        if self._answer is None:
            self._flush()
            deadline = None if timeout_s is None else own_time() + timeout_s
            if not self._reactor.wait(self._waiter, deadline):
                asked = type(self._request).__name__
                raise GetTimeoutError(f"the node did not answer {asked} in {timeout_s} s")
        assert self._answer is not None
        return self._answer()
