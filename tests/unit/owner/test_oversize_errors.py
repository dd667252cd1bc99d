"""A value that is too large to send fails its own task or request, with its size and the limit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.present import present

import phalanx
from phalanx import ObjectRef
from phalanx.errors import MessageTooLargeError, PhalanxError
from phalanx.objects import failures, serialization
from phalanx.objects.oversize_errors import stand_in
from phalanx.owner import requests
from phalanx.protocol import frames
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.frames import Unsendable
from phalanx.protocol.messages import Call, Done, Failed, Fetched, Hello, Item, Message, Task
from phalanx.protocol.node_messages import LeaseWanted, Refused
from phalanx.protocol.requests.actors import GetActor
from phalanx.protocol.wire_errors import from_wire

REASON = "it is 11 bytes, and the limit of a message is 10"
RAW = msgspec.Raw(msgspec.msgpack.encode(None))


def instead_of(message: Message) -> Any:
    """Return the message that is sent instead, and whether it goes to the sender itself."""
    instead = present(stand_in(Unsendable(message, REASON)))
    return instead.message, instead.is_for_sender


@pytest.mark.parametrize(
    ("message", "is_for_sender"),
    [
        (Task(3, b"f"), True),
        (Call(3, "method"), True),
        (Done(3, b"", 0.0, 0.0), False),
        (Item(3, 1, b""), False),
        (Failed(3, b"", 0.0, 0.0), False),
    ],
)
def test_a_task_whose_message_is_too_large_fails(message, is_for_sender):
    instead, goes_to_sender = instead_of(message)
    assert goes_to_sender == is_for_sender
    assert instead.number == 3
    assert not instead.retriable
    error = failures.load(instead.error)
    assert isinstance(error, MessageTooLargeError)
    assert REASON in str(error)


def test_a_request_that_is_too_large_is_answered_with_that():
    cases: list[tuple[Message, bool]] = [(Ask(5, 1, RAW), True), (Reply(5, RAW), False)]
    for message, is_for_sender in cases:
        instead, goes_to_sender = instead_of(message)
        assert goes_to_sender == is_for_sender
        assert instead.token == 5
        assert isinstance(from_wire(instead.error), MessageTooLargeError)


def test_an_object_a_demand_and_what_has_no_stand_in():
    fetched, _ = instead_of(Fetched(4, b""))
    assert isinstance(failures.load(fetched.value.data), MessageTooLargeError)
    refused, _ = instead_of(LeaseWanted(2, {}, 1))
    assert isinstance(refused, Refused)
    assert refused.fatal
    assert stand_in(Unsendable(Hello(1, b"", "", 0), REASON)) is None


def test_a_request_above_the_limit_is_not_sent(monkeypatch):
    monkeypatch.setattr(requests, "REQUEST_BYTES", 40)
    sent: list[Any] = []
    answers: list[Any] = []

    class Node:
        post = send = staticmethod(sent.append)

    asking = requests.Requests(Node())
    asking.call_async(GetActor("n" * 10, "space"), answers.append)
    assert len(sent) == 1
    asking.call_async(GetActor("n" * 40, "space"), answers.append)
    assert len(sent) == 1
    with pytest.raises(MessageTooLargeError, match="limit of a request is 40"):
        answers[0]()
    asking.notify(GetActor("n" * 10, "space"))
    assert len(sent) == 2
    with pytest.raises(MessageTooLargeError, match="limit of a request is 40"):
        asking.notify(GetActor("n" * 40, "space"))
    assert len(sent) == 2


def test_a_large_exception_travels_as_its_text(monkeypatch):
    monkeypatch.setattr(failures, "EXCEPTION_BYTES", 2000)
    monkeypatch.setattr(failures, "EXCEPTION_TEXT_CHARS", 300)
    small: Any = failures.load(failures.describe(ValueError("x" * 100), "f", 1))
    assert isinstance(small.cause, ValueError)
    large: Any = failures.load(failures.describe(ValueError("x" * 3000), "f", 1))
    assert type(large.cause) is PhalanxError
    assert "the limit is 2000" in str(large)
    assert len(str(large)) < 1000
    assert "ValueError" in str(large)


@pytest.fixture(scope="module")
def session():
    phalanx.init(num_cpus=1, include_dashboard=False)
    yield
    phalanx.shutdown()


def test_a_closure_above_the_limit_is_refused_at_the_call(session, monkeypatch):
    monkeypatch.setattr(serialization, "DEFINITION_BYTES", 100_000)
    ballast = bytes(200_000)

    @phalanx.remote
    def measure():
        return len(ballast)

    @phalanx.remote
    class Holder:
        def measure(self):
            return len(ballast)

    for start in (measure.remote, Holder.remote):
        with pytest.raises(MessageTooLargeError, match="limit of a definition is 100000"):
            start()


def test_a_task_with_too_many_inputs_fails_alone(session, monkeypatch):
    @phalanx.remote
    def count(*values):
        return len(values)

    @phalanx.remote
    class Counter:
        def count(self, *values):
            return len(values)

    counter = Counter.remote()
    inputs = [phalanx.put(bytes(90_000)) for _ in range(5)]
    assert phalanx.get([count.remote(*inputs), counter.count.remote(*inputs)]) == [5, 5]
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 300_000)
    failing: list[ObjectRef[Any]] = [count.remote(*inputs), counter.count.remote(*inputs)]
    fine = [count.remote(*inputs[:2]), counter.count.remote(*inputs[:2])]
    for ref in failing:
        with pytest.raises(MessageTooLargeError, match="limit of a message is 300000"):
            phalanx.get(ref, timeout=60)
    assert phalanx.get(fine, timeout=60) == [2, 2]
