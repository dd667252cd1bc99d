"""Threads that wait for messages. One of them, the leader, reads the sockets; the others follow it.
Every thread must be woken, whichever is the leader, for any number of threads.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest
from tests.present import present

from phalanx.protocol import frames
from phalanx.protocol.messages import Fetch, Function
from phalanx.runtime.driver.reactor import Reactor, Waiter
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.own_time import own_time

DEADLINE_S = 120


class Loop:
    """A reactor that completes waiter `number` when Fetch(number) arrives. It has the other end of
    its connection, too.
    """

    def __init__(self, background=False):
        self.waiters = {}
        self.lost: list[Any] = []
        self.ticks = 0
        self.reactor = Reactor(self.handle, self.lost.append, None, self.tick, None)
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.near, self.far = Connection(near), Connection(far)
        self.reactor.add(self.near)
        if background:
            self.reactor.start()

    def handle(self, connection, messages):
        for message in messages:
            self.waiters[message.number].finish()

    def tick(self, now):
        self.ticks += 1
        return 60.0

    def wait(self, number, seconds=DEADLINE_S):
        return self.reactor.wait(self.waiters[number], own_time() + seconds)

    def say(self, number):
        self.far.send(Fetch(number))


@pytest.fixture(params=[False, True], ids=["alone", "background"])
def loop(request):
    loop = Loop(request.param)
    yield loop
    loop.reactor.stop()
    loop.reactor.close()
    loop.far.close()


def test_one_thread_reads_its_own_answer(loop):
    loop.waiters[1] = Waiter()
    loop.say(1)
    assert loop.wait(1)


def test_time_runs_out(loop):
    loop.waiters[1] = Waiter()
    assert not loop.wait(1, 0.01)
    assert not loop.wait(1, -1)


def test_what_has_come_is_found_even_without_time(loop):
    loop.waiters[1] = Waiter()
    loop.say(1)
    while not loop.waiters[1].done:
        loop.wait(1, 0)
    assert loop.wait(1, 0)


@pytest.mark.parametrize("order", ["forward", "backward"])
def test_many_threads_each_get_their_answer(loop, order):
    count = 16
    loop.waiters = {n: Waiter() for n in range(count)}
    found = []
    threads = [
        threading.Thread(target=lambda n=n: found.append((n, loop.wait(n)))) for n in range(count)
    ]
    for thread in threads:
        thread.start()
    for n in range(count) if order == "forward" else reversed(range(count)):
        loop.say(n)
    for thread in threads:
        thread.join(DEADLINE_S)
    assert sorted(found) == [(n, True) for n in range(count)]
    assert loop.reactor._followers == []


def test_a_follower_that_is_done_already_is_forgotten(loop):
    """If it were not forgotten, the finished follower would be woken in place of one that waits."""
    waiter = Waiter()
    waiter.finish()
    assert loop.reactor._follow(waiter, None)
    assert loop.reactor._followers == []


def test_rounds_of_questions_from_several_threads(loop):
    """Each thread asks, waits for the answer and asks again. The other end answers everything that
    it reads.
    """
    rounds, count = 200, 4
    loop.waiters = {n: Waiter() for n in range(rounds * count)}

    def answer():
        loop.far.sock.setblocking(True)
        left = rounds * count
        while left:
            for message in loop.far.receive():
                left -= 1
                loop.far.send(message)

    def ask(first):
        for n in range(first, rounds * count, count):
            loop.near.send(Fetch(n))
            assert loop.wait(n)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(count)]
    for thread in (answerer := threading.Thread(target=answer), *threads):
        thread.start()
    for thread in (answerer, *threads):
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert all(waiter.done for waiter in loop.waiters.values())


def test_the_background_thread_handles_what_nobody_waits_for():
    loop = Loop(background=True)
    try:
        loop.waiters[1] = Waiter()
        loop.waiters[1].event = threading.Event()
        loop.say(1)
        assert loop.waiters[1].event.wait(DEADLINE_S)
    finally:
        loop.reactor.stop()
        loop.reactor.close()
        loop.far.close()


def test_who_was_not_quick_enough_to_take_over_follows_who_was():
    """The second thread sees that the background thread leads, and wants to take over from it. The
    first thread is quicker, so the second thread must follow the first one.
    """
    loop = Loop(background=True)
    reactor: Any = loop.reactor
    loop.waiters = {1: Waiter(), 2: Waiter()}
    first = threading.Thread(target=reactor.wait, args=(loop.waiters[1],))
    wake = reactor.wake

    def wake_late():
        reactor.wake = wake
        first.start()
        while reactor._leader != first.ident:
            assert first.is_alive()

    reactor.wake = wake_late
    second = threading.Thread(target=reactor.wait, args=(loop.waiters[2],))
    while not reactor._background_leads:
        assert reactor._thread.is_alive()
    second.start()
    while loop.reactor._leader != first.ident:
        assert second.is_alive()
    try:
        loop.say(2)
        second.join(DEADLINE_S)
        assert not second.is_alive()
    finally:
        loop.say(1)
        for thread in (first, second):
            thread.join(DEADLINE_S)
        reactor.stop()
        reactor.close()
        loop.far.close()


def test_an_end_is_told_once(loop):
    loop.waiters[1] = Waiter()
    loop.far.close()
    deadline = time.monotonic() + DEADLINE_S
    while not loop.lost and time.monotonic() < deadline:
        loop.wait(1, 0.01)
    loop.wait(1, 0.01)
    assert loop.lost == [loop.near]


def test_stop_ends_every_wait(loop):
    loop.waiters = {n: Waiter() for n in range(4)}
    ended = []
    threads = [
        threading.Thread(
            target=lambda n=n: ended.append(loop.reactor.wait(loop.waiters[n])), daemon=True
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    loop.reactor.stop()
    for waiter in loop.waiters.values():
        waiter.finish()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert ended == [True] * 4


def test_a_handler_may_wait_in_turn(loop):
    loop.waiters = {1: Waiter(), 2: Waiter()}
    first = loop.handle

    def handle(connection, messages):
        for message in messages:
            if message.number == 1:
                loop.say(2)
                assert loop.wait(2)
        first(connection, messages)

    loop.reactor._handle = handle
    loop.say(1)
    assert loop.wait(1)


def test_an_event_loop_leads_while_it_runs():
    loop = Loop()
    loop.waiters = {1: Waiter(), 2: Waiter()}

    async def main():
        with loop.reactor.lead_on(asyncio.get_running_loop()):
            loop.say(1)
            while not loop.waiters[1].done:
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))
    loop.say(2)
    assert loop.wait(2), "and gives the lead back"
    loop.reactor.stop()
    loop.reactor.close()
    loop.far.close()


@pytest.mark.parametrize(
    ("needed", "fail_fast", "news", "done"),
    [
        (2, False, [False], False),
        (2, False, [False, False], True),
        (2, False, [True], False),
        (2, True, [True], True),
        (0, False, [], True),
    ],
)
def test_waiters_count(needed, fail_fast, news, done):
    waiter = Waiter(needed, fail_fast)
    for failed in news:
        waiter.notify(failed)
    assert waiter.done is done


def test_no_exception_ends_the_background_thread(capsys):
    """A tick and two flushes raise exceptions. Messages must still be handled afterwards."""
    defects = ["tick", "flush", "flush"]

    def fails(name):
        if name in defects:
            defects.remove(name)
            raise RuntimeError(f"planted in {name}")
        return 60.0

    loop = Loop()
    loop.reactor._tick = lambda now: fails("tick")
    loop.reactor._flush = lambda: fails("flush")
    loop.waiters = {1: Waiter()}
    loop.waiters[1].event = threading.Event()
    loop.reactor.start()
    try:
        loop.say(1)
        assert loop.waiters[1].event.wait(DEADLINE_S)
        loop.reactor.wake()
        deadline = time.monotonic() + DEADLINE_S
        while defects and time.monotonic() < deadline:
            loop.reactor.request_tick()
            loop.reactor.wake()
        assert not defects
        assert present(loop.reactor._thread).is_alive()
        loop.waiters[2] = waiter = Waiter()
        waiter.event = threading.Event()
        loop.say(2)
        assert waiter.event.wait(DEADLINE_S)
    finally:
        loop.reactor.stop()
        loop.reactor.close()
        loop.far.close()
    assert "planted in flush" in capsys.readouterr().err


def test_a_message_that_is_too_large_is_answered_for_and_the_others_leave(loop, monkeypatch):
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 100)
    answered = []

    def on_unsendable(connection, message):
        answered.append((connection, message))
        loop.waiters[1].finish()

    loop.reactor._unsendable = on_unsendable
    loop.waiters[1] = Waiter()
    large = Function(b"f", bytes(200), "")
    for message in (Fetch(7), large, Fetch(8)):
        loop.near.post(message)
    loop.near.flush()
    assert loop.wait(1)
    assert [(connection, one.message) for connection, one in answered] == [(loop.near, large)]
    loop.far.sock.setblocking(True)
    found: list[Any] = []
    while len(found) < 2:
        found += loop.far.receive()
    assert found == [Fetch(7), Fetch(8)]


def test_an_event_of_a_closed_connection_is_not_given_to_the_next_one():
    """All three connections have messages. The handler of the first message closes the others and
    adds new connections, which get the same descriptors and have no messages.
    """
    heard: list[Connection] = []
    replaced: list[Connection] = []

    def handle(connection, messages):
        heard.append(connection)
        if replaced:
            return
        others = [one for one in nears if one is not connection]
        numbers = {one.fileno for one in others}
        for one in others:
            reactor.drop(one)
        for _ in others:
            near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            near.setblocking(False)
            replaced.append(Connection(near))
            fars.append(Connection(far))
            reactor.add(replaced[-1])
        assert numbers & {one.fileno for one in replaced}

    reactor = Reactor(handle, heard.append, None, lambda now: 60.0, None)
    nears: list[Connection] = []
    fars: list[Connection] = []
    for number in range(3):
        for ends, end in zip((nears, fars), socket.socketpair(), strict=True):
            ends.append(Connection(end))
        reactor.add(nears[-1])
        fars[-1].send(Fetch(number))
    received: list[Connection] = []
    receive = reactor._receive

    def noted(connection: Connection) -> None:
        received.append(connection)
        receive(connection)

    reactor._receive = noted  # type: ignore[method-assign]
    reactor.poll(0)
    assert len(heard) == 1
    assert received == heard
    fars[3].send(Fetch(7))
    for _ in range(10):
        if len(heard) < 2:
            reactor.poll(1.0)
    assert heard[1] is replaced[0]
    reactor.close()
    for connection in fars:
        connection.close()
