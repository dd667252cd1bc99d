"""`get` and `wait` in a client: the driver waits, and answers with values."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.errors import GetTimeoutError
from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import Stream
from phalanx.protocol import client_messages as m
from phalanx.protocol.messages import FAILED, Payload, Value
from phalanx.runtime.client.conversation import Conversation, Expected, NotYetError
from phalanx.runtime.client.references import ClientReferences
from phalanx.runtime.client.work import names_of
from phalanx.runtime.driver.waiting import check_session

_LATE_S = 5.0
"""Seconds by which the answer to a wait with a time limit may be late."""
_values = msgspec.msgpack.Decoder(list[Payload])
_places = msgspec.msgpack.Decoder(list[int])


class ClientWaiting:
    """Waits for objects, for any thread of a client."""

    def __init__(self, references: ClientReferences, conversation: Conversation) -> None:
        self._references = references
        self._conversation = conversation
        self.running = None
        """A client runs no task that could wait."""

    def get_one(self, ref: ObjectRef[Any], timeout_s: float | None) -> Any:
        """Return one value. Raises its error, or GetTimeoutError."""
        return self.get_many([ref], timeout_s)[0]

    def get_many(self, refs: list[ObjectRef[Any]], timeout_s: float | None) -> list[Any]:
        """Return all values, in order. Raises the error of the first failed object, or
        GetTimeoutError.
        """
        check_session(refs)
        references = self._references
        here = {ref: ref._value for ref in refs}
        missing = [ref for ref, value in here.items() if value is None]
        inner = {ref: ref._inner or [] for ref in here}
        if missing:
            expected = self._conversation.ask(
                lambda token: m.GetObjects(token, names_of(missing), timeout_s)
            )
            values = _values.decode(self._answer(expected, timeout_s))
            came = [references.inner_of(value) for value in values]
            failed = values[0] if values and _is_failed(values[0]) else None
            if failed is not None and len(values) == 1:
                references.read(failed, [])
            for ref, value, held in zip(missing, values, came, strict=True):
                here[ref], inner[ref] = value, held
        return [references.read(here[ref], inner[ref]) for ref in refs]  # type: ignore[arg-type]

    def wait_some(
        self, refs: list[ObjectRef[Any]], count: int, timeout_s: float | None, fetch: bool
    ) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
        """Return (ready, not ready), both in the given order. At most `count` objects are ready."""
        check_session(refs)
        expected = self._conversation.ask(
            lambda token: m.WaitObjects(token, names_of(refs), count, timeout_s, fetch)
        )
        try:
            ready = set(_places.decode(self._answer(expected, timeout_s)))
        except GetTimeoutError:  # the connection is lost for now
            ready = set()
        return (
            [ref for at, ref in enumerate(refs) if at in ready],
            [ref for at, ref in enumerate(refs) if at not in ready],
        )

    def _answer(self, expected: Expected, timeout_s: float | None) -> msgspec.Raw:
        """Return the driver's answer. The driver answers after `timeout_s` seconds at the latest;
        if no answer has come some seconds later, GetTimeoutError is raised.
        """
        try:
            return expected.result(None if timeout_s is None else timeout_s + _LATE_S)
        except NotYetError:
            raise GetTimeoutError(
                f"Get timed out: the driver on the cluster did not answer within {timeout_s} s."
            ) from None

    def wait_stream(self, stream: Stream, index: int, timeout_s: float | None) -> bool:
        """Wait until item `index` has arrived or the stream has ended."""
        return self._references.wait_stream(stream, index, timeout_s)


def _is_failed(value: Payload) -> bool:
    return type(value) is Value and value.kind == FAILED
