"""Waits on a process's sockets. One thread at a time leads: it polls the sockets.

A thread that waits for a value leads itself (`wait`), so that an answer costs no thread switch. A
background thread leads if no other thread has led for a while, so that messages are handled while
the program computes. As soon as another thread waits, that thread leads instead.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from phalanx.errors import ProtocolError
from phalanx.protocol.frames import Unsendable
from phalanx.runtime.driver.interrupts import interruptible
from phalanx.runtime.os.adaptive_spin import AdaptiveSpin
from phalanx.runtime.os.connection import Connection, listen_again
from phalanx.runtime.os.own_time import own_time

if TYPE_CHECKING:
    import asyncio

_NAP_S = 0.004
_LONG_NAP_S = 2.0
_ACCEPT_AGAIN_S = 0.05
_IDLE_S = 1.0
_PAUSE_S = 0.1
"""Seconds for which the leader pauses after an internal error, which may occur again and again."""

interruptible(AdaptiveSpin.poll)


class Waiter:
    """One thread's wait for some objects. Whichever thread completes the last of these objects sets
    `done`.
    """

    __slots__ = ("done", "event", "fail_fast", "needed")

    def __init__(self, needed: int = 1, fail_fast: bool = False) -> None:
        self.needed = needed
        self.fail_fast = fail_fast
        """Whether one failed object ends the wait for all objects."""
        self.done = needed <= 0
        self.event: threading.Event | None = None

    def notify(self, failed: bool = False) -> None:
        """Count one of the awaited objects as ready. `failed`: whether its value is an error."""
        self.needed -= 1
        if self.needed <= 0 or (failed and self.fail_fast):
            self.done = True
            if self.event is not None:
                self.event.set()

    def notify_of(self, count: int) -> None:
        """Count this number of the awaited objects as ready."""
        self.needed -= count - 1
        self.notify()

    def finish(self) -> None:
        """End the wait."""
        self.done = True
        if self.event is not None:
            self.event.set()


class Reactor:
    """An epoll loop that many threads may lead, one at a time.

    `handle(connection, messages)` is called with messages that arrived, `lost(connection)` when a
    connection ends, `accepted(socket)` for each new peer, and `flush()` after each round.
    `tick(now)` is called when it is due; it returns the seconds until the next call is due.
    `unsendable(connection, message)` is called for each message that was too large to send.
    """

    def __init__(
        self,
        handle: Callable[[Connection, list[Any]], None],
        lost: Callable[[Connection], None],
        accepted: Callable[[socket.socket], None] | None = None,
        tick: Callable[[float], float] | None = None,
        flush: Callable[[], None] | None = None,
        unsendable: Callable[[Connection, Unsendable], None] | None = None,
    ) -> None:
        self.handle = handle
        self._lost = lost
        self._accepted = accepted
        self._tick = tick
        self._flush = flush
        self._unsendable = unsendable
        self._not_sent: deque[tuple[Connection, Unsendable]] = deque()
        self._epoll = select.epoll()
        self._spin = AdaptiveSpin()
        self._connections: dict[int, Connection] = {}
        self._closed = 0
        """The number of connections that were closed."""
        self._listener: socket.socket | None = None
        self._is_accepting = True
        self.failed_accepts = 0
        """How often a peer could not be accepted. The usual cause is that no descriptor was
        free.
        """
        self._wake_fd = (
            os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if hasattr(os, "eventfd") else -1
        )
        self._wake_write = self._wake_fd
        if self._wake_fd < 0:
            self._wake_fd, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._lead = threading.Lock()
        self._wanted = 0
        self._followers: list[Waiter] = []
        self._last_led = 0.0
        self._background_leads = False
        self._stopped = False
        self._rest = threading.Event()
        self._resting_long = False
        self._thread: threading.Thread | None = None
        self._next_tick = 0.0
        self._leader: int | None = None
        self._kicked = False

    # ---- what is watched ---------------------------------------------------------------------

    def add(self, connection: Connection) -> None:
        """Watch a connection. Any thread may call this."""
        connection.on_writable = self._want_writable
        connection.on_unsendable = self._note_unsendable
        self._connections[connection.fileno] = connection
        self._epoll.register(connection.fileno, select.EPOLLIN)

    def drop(self, connection: Connection) -> None:
        """Stop watching a connection, and close it."""
        if self._connections.pop(connection.fileno, None) is not None:
            with contextlib.suppress(OSError, ValueError):
                self._epoll.unregister(connection.fileno)
        self._closed += 1
        connection.close()

    def listen(self, listener: socket.socket) -> None:
        """Accept peers on this socket."""
        self._listener = listener
        self._is_accepting = True
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def _listen_again(self) -> None:
        """Listen again, if the socket's file was removed and its directory exists again."""
        again = None if self._listener is None else listen_again(self._listener)
        if again is not None and self._listener is not None:
            self._epoll.unregister(self._listener.fileno())
            self._listener.close()
            self.listen(again)

    def _want_writable(self, connection: Connection, wanted: bool) -> None:
        mask = select.EPOLLIN | (select.EPOLLOUT if wanted else 0)
        with contextlib.suppress(OSError, ValueError):
            self._epoll.modify(connection.fileno, mask)

    def _note_unsendable(self, connection: Connection, message: Unsendable) -> None:
        self._not_sent.append((connection, message))
        self.wake()  # always, because even the leader may be about to sleep

    # ---- leading -----------------------------------------------------------------------------

    def poll(self, timeout_s: float, *, is_awaited: bool = False) -> None:
        """Handle the events that have arrived. Waits at most `timeout_s` seconds for the first
        (negative: for ever).

        `is_awaited`: whether this thread has nothing to do until an event comes.
        """
        try:
            # Events that were not read are reported again, so an interrupt in either loop loses
            # nothing.
            look = self._epoll.poll
            events = self._spin.poll(look, timeout_s) if is_awaited else self._sleep(timeout_s)
        except InterruptedError:
            return
        closed = self._closed
        for fd, mask in events:
            connection = self._connections.get(fd)
            if connection is not None:
                if mask & select.EPOLLOUT:
                    connection.drain()
                if mask & ~select.EPOLLOUT:
                    self._receive(connection)
            elif fd == self._wake_fd:
                self._kicked = False
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_fd, 4096)
            elif self._listener is not None and fd == self._listener.fileno():
                self._accept()
            if self._closed != closed:
                # The number of a closed descriptor may belong to another connection, which has no
                # event. The next poll reports the remaining events again.
                break
        if self._flush is not None:
            self._flush()
        while self._not_sent and self._unsendable is not None:
            self._unsendable(*self._not_sent.popleft())

    @interruptible
    def _sleep(self, timeout_s: float) -> list[tuple[int, int]]:
        return self._epoll.poll(timeout_s)

    def _receive(self, connection: Connection) -> None:
        try:
            messages = connection.receive()
        except (ProtocolError, MemoryError):
            messages = None
        if connection.is_switched:
            self._register_again(connection)
        if messages is None:
            if connection.fileno in self._connections:
                self.drop(connection)
                self._lost(connection)
        elif messages:
            self.handle(connection, messages)

    def _register_again(self, connection: Connection) -> None:
        """Register the connection's descriptor again, because it now belongs to a new socket. The
        first registration ended with the old socket.
        """
        connection.is_switched = False
        with contextlib.suppress(FileExistsError):
            self._epoll.register(connection.fileno, select.EPOLLIN)
        # This entry was made by a flush before the descriptor was watched again.
        if connection.has_backlog:
            self._want_writable(connection, True)
        connection.flush()

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # for example, no descriptor is left; meanwhile peers wait in the kernel's queue
                self.failed_accepts += 1
                self._epoll.unregister(self._listener.fileno())
                self._is_accepting = False
                self._next_tick = min(self._next_tick, own_time() + _ACCEPT_AGAIN_S)
                return
            if self._accepted is not None:
                self._accepted(sock)

    def wait(self, waiter: Waiter, deadline: float | None = None) -> bool:
        """Wait until `waiter.done`. This thread leads if no other thread does. Returns False if
        `deadline` passed first.

        `deadline` is on the monotonic clock. An exception of a signal handler is raised from here.
        """
        if self._leader == threading.get_ident():
            return self._nested_wait(waiter, deadline)
        while not waiter.done:
            if self._lead.acquire(blocking=False) or self._take_over(deadline):
                try:
                    self._leader = threading.get_ident()
                    self._lead_until(waiter, deadline)
                finally:
                    self._leader = None
                    self._last_led = time.monotonic()
                    self._lead.release()
                    if self._followers:
                        self._promote()
                    if self._resting_long:
                        self._rest.set()
            elif not self._follow(waiter, deadline):
                break
            if deadline is not None and not waiter.done and own_time() >= deadline:
                break
        return waiter.done

    def _lead_until(self, waiter: Waiter, deadline: float | None) -> None:
        while not waiter.done and not self._stopped:
            now = own_time()
            timeout = self._next_tick - now
            if timeout <= 0:
                timeout = self._tick_if_due(now)
            if deadline is not None:
                timeout = min(timeout, deadline - now)
                if timeout <= 0:
                    self.poll(0)
                    return
            self.poll(timeout, is_awaited=True)

    @contextlib.contextmanager
    def lead_on(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Let this running event loop lead (poll the sockets) until the block ends."""
        if not self._lead.acquire(blocking=False):
            self._wanted += 1
            self.wake()
            self._lead.acquire()
            self._wanted -= 1
        self._leader = threading.get_ident()

        def ready() -> None:
            self.poll(0)
            self._tick_if_due(own_time())

        timers: list[asyncio.TimerHandle] = []

        def tick() -> None:
            after_s = _IDLE_S
            try:
                after_s = max(self._tick_if_due(own_time()), 0.01)
            finally:  # the event loop reports an error, and the next tick comes nevertheless
                timers[:] = [loop.call_later(after_s, tick)]

        tick()
        loop.add_reader(self._epoll.fileno(), ready)
        try:
            if self._flush is not None:
                self._flush()
            yield
        finally:
            timers[0].cancel()
            loop.remove_reader(self._epoll.fileno())
            self._leader = None
            self._lead.release()

    def _tick_if_due(self, now: float) -> float:
        """If the tick is due, run it, and check that this process still listens. Returns the
        seconds until the next tick.
        """
        if now >= self._next_tick:
            self._next_tick = now + _IDLE_S  # set even if the tick raises an error
            if not self._is_accepting and self._listener is not None:
                self.listen(self._listener)
            self._listen_again()
            if self._tick is not None:
                self._next_tick = now + self._tick(now)
        return self._next_tick - now

    def request_tick(self) -> None:
        """Make the next tick due now, for work that has just begun."""
        self._next_tick = 0.0

    def _nested_wait(self, waiter: Waiter, deadline: float | None) -> bool:
        # A handler that the leader calls may wait itself (for example, in a finalizer that calls
        # get).
        self._lead_until(waiter, deadline)
        return waiter.done

    def _take_over(self, deadline: float | None) -> bool:
        """Lead in place of the background thread. Returns False if that thread does not lead, or if
        the time is up.
        """
        if not self._background_leads:
            return False
        self._wanted += 1
        self.wake()
        try:
            # Another thread may have been faster, and leads for as long as it waits itself.
            while self._background_leads:
                left_s = _NAP_S if deadline is None else deadline - own_time()
                if self._lead.acquire(timeout=min(max(left_s, 0.0), _NAP_S)):
                    return True
                if left_s <= 0:
                    break
            return False
        finally:
            self._wanted -= 1

    @interruptible
    def _follow(self, waiter: Waiter, deadline: float | None) -> bool:
        """Sleep until the wait is over, or until this thread should try to lead. Always returns
        True: the caller checks the time.
        """
        if waiter.event is None:
            waiter.event = threading.Event()
        event = waiter.event
        event.clear()
        self._followers.append(waiter)
        if not waiter.done:
            left_s = 0.05 if deadline is None else min(0.05, deadline - own_time())
            event.wait(max(left_s, 0))
        with contextlib.suppress(ValueError):
            self._followers.remove(waiter)
        return True

    def _promote(self) -> None:
        for waiter in list(self._followers):
            if waiter.event is not None:
                waiter.event.set()
                return

    def wake(self) -> None:
        """End the leader's poll, so that it looks for work again."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._wake_write, b"\x01\0\0\0\0\0\0\0")

    # ---- the background thread ---------------------------------------------------------------

    def start(self) -> None:
        """Start the background thread."""
        self._thread = threading.Thread(target=self._background, name="phalanx-io", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the background thread and every wait; close nothing."""
        self._stopped = True
        self._rest.set()
        self.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2)

    def close(self) -> None:
        """Close every connection and descriptor."""
        for connection in list(self._connections.values()):
            self.drop(connection)
        if self._listener is not None:
            self._listener.close()
        self._epoll.close()
        for fd in {self._wake_fd, self._wake_write}:
            with contextlib.suppress(OSError):
                os.close(fd)

    def close_inherited(self) -> None:
        """Close the copies of descriptors that a fork made. The descriptors of the parent stay
        open.
        """
        for connection in self._connections.values():
            connection.close()
        if self._listener is not None:
            self._listener.close()
        self._epoll.close()
        for fd in {self._wake_fd, self._wake_write}:
            os.close(fd)

    def kick(self) -> None:
        """Make sure that some thread soon sends the messages that were posted."""
        leader = self._leader
        if leader is None:
            if self._resting_long:
                self._rest.set()
        elif leader != threading.get_ident() and not self._kicked:
            # The leader is woken only once until it has looked. Writing once for each of a thousand
            # tasks would cost more than the tasks.
            self._kicked = True
            self.wake()

    def _background(self) -> None:
        nap = _NAP_S
        while not self._stopped:
            recent = time.monotonic() - self._last_led < _NAP_S
            if self._wanted or recent or not self._lead.acquire(blocking=False):
                # Another thread leads, or led just now. So sleep, and longer each time that this
                # happens.
                if not recent and not self._wanted:
                    nap = min(nap * 2, _LONG_NAP_S)
                    self._resting_long = nap > 2 * _NAP_S
                else:
                    nap = _NAP_S
                # Otherwise that leader has just left.
                if self._leader is not None or not self._resting_long:
                    self._rest.wait(nap)
                self._rest.clear()
                self._resting_long = False
                continue
            nap = _NAP_S
            self._leader = threading.get_ident()
            self._background_leads = True
            try:
                if self._flush is not None:
                    self._flush()
                while not self._stopped and not self._wanted:
                    self.poll(self._tick_if_due(own_time()))
            except Exception:
                # This is a fault in Phalanx: the failed work is lost, and everything else
                # continues.
                traceback.print_exc()
                nap = _PAUSE_S
            finally:
                self._background_leads = False
                self._leader = None
                self._lead.release()
            if nap == _PAUSE_S:
                self._rest.wait(nap)
