"""Requests of a client to the head and to the driver's node. The driver passes them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from phalanx.errors import GetTimeoutError
from phalanx.protocol import client_messages as m
from phalanx.protocol.requests.request import Request, encode_request, read_result
from phalanx.runtime.client.conversation import Conversation, Expected, NotYetError

R = TypeVar("R")


class ClientAsked(Generic[R]):
    """A request, and its answer once it has come."""

    def __init__(self, request: Request[R], expected: Expected) -> None:
        self._request = request
        self._expected = expected

    @property
    def is_there(self) -> bool:
        """Whether the answer has come."""
        return self._expected.is_there

    def result(self, timeout_s: float | None = None) -> R:
        """Wait for the answer and return it. Raises GetTimeoutError, the error that is the answer,
        and ConnectionError if the driver is lost.
        """
        try:
            result = self._expected.result(timeout_s)
        except NotYetError:
            asked = type(self._request).__name__
            raise GetTimeoutError(f"the driver did not answer {asked} in {timeout_s} s") from None
        return read_result(self._request, result, None)


class ClientRequests:
    """Sends requests through the driver."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def ask(self, request: Request[R], timeout_s: float | None = None) -> R:
        """Send a request and wait, as `ClientAsked.result` does."""
        return self.ask_async(request).result(timeout_s)

    def ask_async(self, request: Request[R]) -> ClientAsked[R]:
        """Send a request. Its answer can be read later."""
        body = encode_request(request)
        expected = self._conversation.ask(lambda token: m.AskNode(token, request.kind, body))
        return ClientAsked(request, expected)

    def call(self, request: Request[Any], done: Callable[[], None]) -> None:
        """Send a request. `done` is called on another thread once it is answered."""
        asked = self.ask_async(request)

        def wait() -> None:
            asked._expected.result()
            done()

        self._conversation.later(wait)

    def notify(self, request: Request[Any]) -> None:
        """Send a request whose answer is not needed."""
        self._conversation.tell(m.AskNode(0, request.kind, encode_request(request)))
