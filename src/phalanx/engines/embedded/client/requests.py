"""Requests to the node whose answers a thread waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from phalanx import errors
from phalanx.engines.embedded.client.reactor import Reactor, Waiter
from phalanx.engines.embedded.client.transport import NodeConnection
from phalanx.errors import GetTimeoutError, LocalNodeDiedError
from phalanx.owner.requests import Requests
from phalanx.protocol.node_messages import Reply


class NodeRequests:
    """Asks the node, and waits for what it says."""

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

    def ask(self, method: str, timeout_s: float | None = None, **args: Any) -> Any:
        """Ask and wait. Raises the error that the node answers with, or GetTimeoutError."""
        asked = self.call_async(method, **args)
        try:
            return asked.result(timeout_s)
        finally:
            self._requests.forget(asked.token)

    def call_async(self, method: str, **args: Any) -> Asked:
        """Ask with the next flush; the answer may be waited for later. Raises
        LocalNodeDiedError."""
        if self._node.is_gone:
            raise LocalNodeDiedError("The node process of this machine is gone.")
        asked = Asked(method, self._reactor, self._flush)
        asked.token = self._requests.call_async(method, asked.answered, **args)
        return asked

    def notify(self, method: str, **args: Any) -> None:
        """Ask for something whose answer nobody needs."""
        self._requests.notify(method, **args)


class Asked:
    """A request whose answer is on its way."""

    def __init__(self, method: str, reactor: Reactor, flush: Callable[[], None]) -> None:
        self._method = method
        self._reactor = reactor
        self._flush = flush
        self._waiter = Waiter()
        self._reply: Reply | None = None
        self.token = 0

    def answered(self, reply: Reply) -> None:
        """The answer is there."""
        self._reply = reply
        self._waiter.finish()

    def result(self, timeout_s: float | None = None) -> Any:
        """The answer, waited for. Raises the error that it is, or GetTimeoutError."""
        if self._reply is None:
            self._flush()
            deadline = None if timeout_s is None else time.monotonic() + timeout_s
            if not self._reactor.wait(self._waiter, deadline):
                raise GetTimeoutError(f"the node did not answer {self._method!r} in {timeout_s} s")
        reply = self._reply
        assert reply is not None
        if reply.error is not None:
            raise remote_error(*reply.error)
        return reply.result


def remote_error(kind: str, text: str) -> Exception:
    """An error that the node answered with, as an exception of the class it names."""
    cls = getattr(errors, kind, None) or {"ValueError": ValueError, "TypeError": TypeError}.get(
        kind
    )
    if isinstance(cls, type) and issubclass(cls, Exception):
        return cls(text)
    return errors.SystemFailureError(f"{kind}: {text}")
