"""Results with consecutive numbers are sent in one message, and all results keep their order."""

from __future__ import annotations

import itertools
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from phalanx.protocol.messages import Done, Failed, Results
from phalanx.runtime.worker.result_outbox import TOGETHER_BYTES, ResultOutbox


class Link:
    """Records the messages that were flushed."""

    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.sent: list[Any] = []

    def post(self, message: Any) -> None:
        self.posted.append(message)

    def flush(self) -> None:
        sent, self.posted = self.posted, []
        self.sent += sent


@pytest.fixture
def outbox() -> Any:
    return ResultOutbox(lambda: None)


def numbers(message: Any) -> list[int]:
    if isinstance(message, Results):
        return list(range(message.first, message.first + len(message.values)))
    return [message.number]


def test_consecutive_results_share_a_message(outbox: Any) -> None:
    link = Link()
    for number in range(5, 9):
        outbox.done(link, number, b"%d" % number, number, number + 0.5)
    outbox.flush()
    assert link.sent == [
        Results(5, [b"5", b"6", b"7", b"8"], [5, 6, 7, 8], [5.5, 6.5, 7.5, 8.5]),
    ]


def test_a_result_alone_is_a_message_of_its_own(outbox: Any) -> None:
    link = Link()
    outbox.done(link, 5, b"five", 1.0, 2.0)
    outbox.flush()
    outbox.post(link, Done(6, b"six", 1.0, 2.0))
    outbox.flush()
    assert link.sent == [Done(5, b"five", 1.0, 2.0), Done(6, b"six", 1.0, 2.0)]


def test_other_messages_keep_their_place(outbox: Any) -> None:
    link, other = Link(), Link()
    for number in (1, 2, 4, 3):
        outbox.done(link, number, b"", 0.0, 0.0)
    outbox.post(link, Failed(5, b"", 0.0, 0.0))
    outbox.post(link, Done(6, b"", 0.0, 0.0, [b"second"]))
    outbox.done(link, 7, b"", 0.0, 0.0)
    outbox.done(other, 8, b"", 0.0, 0.0)
    outbox.done(link, 8, b"", 0.0, 0.0)
    outbox.flush()
    assert [numbers(message) for message in link.sent] == [[1, 2], [4], [3], [5], [6], [7], [8]]
    assert [numbers(message) for message in other.sent] == [[8]]


def test_a_large_result_ends_its_message(outbox: Any) -> None:
    link = Link()
    for number, size in enumerate((1, TOGETHER_BYTES + 1, 1, 1), 1):
        outbox.done(link, number, b"x" * size, 0.0, 0.0)
    outbox.flush()
    assert [numbers(message) for message in link.sent] == [[1, 2], [3, 4]]


def test_no_result_is_lost_between_threads(outbox: Any) -> None:
    """The leading thread sends results while another thread adds some."""
    link, count = Link(), 20_000
    is_over = threading.Event()

    def send() -> None:
        while not is_over.is_set():
            outbox.send_late()

    sender = threading.Thread(target=send)
    sender.start()
    for number in range(count):
        outbox.done(link, number, b"%d" % number, number, number)
    is_over.set()
    sender.join()
    outbox.flush()
    messages = [*link.sent, *link.posted]
    assert sorted(number for one in messages for number in numbers(one)) == list(range(count))
    for message in messages:
        if isinstance(message, Results):
            assert message.values == [b"%d" % number for number in numbers(message)]
            assert message.started == message.ended == numbers(message)


def interrupted(at: int, works: Any, finalizer: Any) -> bool:
    """Run the finalizer after `at` bytecode instructions of the outbox. Returns whether it ran."""
    left = at

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_globals.get("__name__") != ResultOutbox.__module__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                sys.settrace(None)
                finalizer()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        works()
    finally:
        sys.settrace(before)
    return left <= 0


@pytest.mark.parametrize("how", ["flush", "done", "post"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_finalizer_may_run_anywhere(how: str, count: int) -> None:
    """In Python 3.12 and later, garbage may be collected after any call. The __del__ of a user's
    object may then call `get`, which sends the results.
    """
    for at in itertools.count(1):
        link, outbox = Link(), ResultOutbox(lambda: None)

        def works(outbox: Any = outbox, link: Any = link) -> None:
            for number in range(count):
                outbox.done(link, number, b"%d" % number, number, number)
            outbox.flush()

        def finalizer(outbox: Any = outbox, link: Any = link) -> None:
            if how == "flush":
                outbox.flush()
            elif how == "done":
                outbox.done(link, 7, b"7", 7, 7)
            else:
                outbox.post(link, Done(7, b"7", 7, 7, more=[b"more"]))

        ran = interrupted(at, works, finalizer)
        outbox.flush()
        found = [
            (number, value, started)
            for message in link.sent
            for number, value, started in (
                zip(numbers(message), message.values, message.started, strict=True)
                if isinstance(message, Results)
                else [(message.number, message.value, message.started)]
            )
        ]
        wanted = [*range(count), *([7] if ran and how != "flush" else [])]
        assert sorted(found) == [(number, b"%d" % number, number) for number in wanted], at
        if not ran:
            return
