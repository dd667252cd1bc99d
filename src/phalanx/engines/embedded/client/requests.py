"""The requests of a process to its node that are under way."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from phalanx.engines.embedded.client.reactor import Waiter
from phalanx.errors import GetTimeoutError, LocalNodeDiedError
from phalanx.protocol.node_messages import Ask, Reply
from phalanx.protocol.requests.request import NOTHING, Request, encode_request, read_result
from phalanx.protocol.wire_errors import to_wire

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime

R = TypeVar("R")


class Requests:
    """Requests by their tokens, until they are answered."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tokens = itertools.count(1)
        self._replied: dict[int, Callable[[Reply], None]] = {}

    def ask(self, request: Request[R], timeout_s: float | None = None) -> R:
        """Ask the node and wait. Raises the error that it answers with, or GetTimeoutError."""
        pending = self.ask_async(request)
        try:
            return pending.result(timeout_s)
        finally:
            self._replied.pop(pending.token, None)

    def ask_async(self, request: Request[R]) -> PendingReply[R]:
        """Ask the node with the next flush; its answer may be waited for later."""
        if self._runtime.closed:
            raise LocalNodeDiedError("The node process of this machine is gone.")
        pending = PendingReply(self._runtime, next(self._tokens), request)
        self._replied[pending.token] = pending.replied
        self._post(pending.token, request)
        return pending

    def ask_then(
        self, request: Request[R], answered: Callable[[R | None, Exception | None], None]
    ) -> None:
        """Ask the node without waiting. `answered` is called with the answer or with the error that
        it is, the lock held."""

        def replied(reply: Reply) -> None:
            try:
                answer = read_result(request, reply.result, reply.error)
            except Exception as error:
                answered(None, error)
            else:
                answered(answer, None)

        token = next(self._tokens)
        self._replied[token] = replied
        self._post(token, request)

    def notify(self, request: Request[Any]) -> None:
        """Ask the node without waiting; its answer is dropped."""
        self._post(0, request)

    def _post(self, token: int, request: Request[Any]) -> None:
        self._runtime.post(self._runtime.node, Ask(token, request.kind, encode_request(request)))

    def replied(self, reply: Reply) -> None:
        """The node has replied."""
        replied = self._replied.pop(reply.token, None)
        if replied is not None:
            replied(reply)

    def node_lost(self) -> None:
        """The node's process is gone: nothing will be answered."""
        waiting, self._replied = self._replied, {}
        error = to_wire(LocalNodeDiedError("the node process of this machine is gone"))
        for token, replied in waiting.items():
            replied(Reply(token, NOTHING, error))


class PendingReply(Generic[R]):
    """A request whose answer is on its way."""

    def __init__(self, runtime: Runtime, token: int, request: Request[R]) -> None:
        self._runtime = runtime
        self._request = request
        self._waiter = Waiter()
        self._reply: Reply | None = None
        self.token = token

    def replied(self, reply: Reply) -> None:
        """The answer is there."""
        self._reply = reply
        self._waiter.finish()

    def result(self, timeout_s: float | None = None) -> R:
        """The answer, waited for. Raises the error that it is, or GetTimeoutError."""
        if not self._waiter.done:
            self._runtime.flush()
            deadline = None if timeout_s is None else time.monotonic() + timeout_s
            if not self._runtime.reactor.wait(self._waiter, deadline):
                asked = type(self._request).__name__
                raise GetTimeoutError(f"the node did not answer {asked} in {timeout_s} s")
        assert self._reply is not None
        return read_result(self._request, self._reply.result, self._reply.error)
