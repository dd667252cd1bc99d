"""What a process asks its node, and who waits for the answers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phalanx import errors
from phalanx.engines.embedded.client.reactor import Waiter
from phalanx.errors import GetTimeoutError, LocalNodeDiedError
from phalanx.protocol.node_messages import Reply, Request

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime


class Requests:
    """Requests under way, by their tokens."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tokens = itertools.count(1)
        self._replies: dict[int, tuple[Waiter | _Answered, list[Reply]]] = {}

    def ask(self, method: str, timeout_s: float | None = None, **args: Any) -> Any:
        """Ask the node and wait. Raises the error that it answers with, or GetTimeoutError."""
        asked = self.soon(method, **args)
        try:
            return asked.result(timeout_s)
        finally:
            self._replies.pop(asked.token, None)

    def soon(self, method: str, **args: Any) -> Asked:
        """Ask the node with the next flush; its answer may be waited for later."""
        if self._runtime.closed:
            raise LocalNodeDiedError("The node process of this machine is gone.")
        asked = Asked(self._runtime, next(self._tokens), method)
        self._replies[asked.token] = (asked.waiter, asked.box)
        self._runtime.post(self._runtime.node, Request(asked.token, method, args))
        return asked

    def then(self, method: str, answered: Callable[[Reply], None], **args: Any) -> None:
        """Ask the node without waiting; `answered` is called with the answer, the lock held."""
        token = next(self._tokens)
        box: list[Reply] = []
        self._replies[token] = (_Answered(box, answered), box)
        self._runtime.post(self._runtime.node, Request(token, method, args))

    def tell(self, method: str, **args: Any) -> None:
        """Ask the node without waiting; its answer is dropped."""
        self._runtime.post(self._runtime.node, Request(0, method, args))

    def answered(self, reply: Reply) -> None:
        """The node has answered."""
        waiting = self._replies.pop(reply.token, None)
        if waiting is not None:
            waiting[1].append(reply)
            waiting[0].finish()

    def node_lost(self) -> None:
        """The node's process is gone: nothing will be answered."""
        waiting, self._replies = self._replies, {}
        error = ("LocalNodeDiedError", "the node process of this machine is gone")
        for token, (waiter, box) in waiting.items():
            box.append(Reply(token, None, error))
            waiter.finish()


class Asked:
    """A request whose answer is on its way."""

    def __init__(self, runtime: Runtime, token: int, method: str) -> None:
        self._runtime = runtime
        self._method = method
        self.token = token
        self.waiter = Waiter()
        self.box: list[Reply] = []

    def result(self, timeout_s: float | None = None) -> Any:
        """The answer, waited for. Raises the error that it is, or GetTimeoutError."""
        if not self.waiter.done:
            self._runtime.flush()
            deadline = None if timeout_s is None else time.monotonic() + timeout_s
            if not self._runtime.reactor.wait(self.waiter, deadline):
                raise GetTimeoutError(f"the node did not answer {self._method!r} in {timeout_s} s")
        reply = self.box[0]
        if reply.error is not None:
            raise remote_error(*reply.error)
        return reply.result


class _Answered:
    """Stands for who waits for an answer, where nobody does."""

    def __init__(self, box: list[Reply], answered: Callable[[Reply], None]) -> None:
        self._box = box
        self._answered = answered

    def finish(self) -> None:
        """The answer is there."""
        self._answered(self._box[0])


def remote_error(kind: str, text: str) -> Exception:
    """An error that the node answered with, as an exception of the class it names."""
    cls = getattr(errors, kind, None) or {"ValueError": ValueError, "TypeError": TypeError}.get(
        kind
    )
    if isinstance(cls, type) and issubclass(cls, Exception):
        return cls(text)
    return errors.SystemFailureError(f"{kind}: {text}")
