"""Chooses the sources from which many nodes copy a large object: each holder sends the object to
two nodes at a time.

A node that has received a copy sends the object to further nodes. So one node's link carries the
object only a few times, and `n` nodes have it after log3(n) rounds, in each of which a holder sends
two copies. The node that wrote an object, its writer, names a source to each node that wants a
copy. The answer is advice: a node that gets no answer, or finds no copy at the source, copies the
object from its writer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from phalanx.model.ids import PREFIX_BYTES
from phalanx.objects.names import prefix_of_name
from phalanx.protocol.copy_messages import SourceFor, SourceFree, WantSource

LARGE_BYTES = 32 << 20
"""A node asks for a source only if the object has at least this number of bytes. For a smaller
object, the question would cost more than it saves.
"""
AT_ONCE = 2
"""The largest number of nodes that copy an object from one source at a time. It is small, so that a
slow source does not delay many nodes.
"""
ASK_AGAIN_S = 5.0
"""Seconds after which a question for a source is repeated, because the question may have been lost
with its connection.
"""
ANSWER_S = 10.0
"""Seconds without an answer after which a node copies the object from its writer."""
_GRACE_S = 10.0
"""Seconds that a transfer may take in addition to the time for the object's bytes."""
_SLOWEST = 20e6
"""The lowest rate, in bytes per second. A node that receives more slowly counts as stopped."""

Send = Callable[[bytes, Any], None]


@dataclass
class _Broadcast:
    """The transfers of one object: the nodes that receive it, each with its source and a time
    limit, and the nodes that wait.
    """

    size: int
    takers: dict[bytes, tuple[bytes, float]] = field(default_factory=dict)
    waiting: deque[bytes] = field(default_factory=deque)


class Broadcasts:
    """Chooses the sources from which other nodes copy objects. It works on the node that wrote the
    objects.
    """

    def __init__(
        self,
        prefix: bytes,
        clock: Callable[[], float],
        send: Send,
        holders: Callable[[str], Collection[bytes]],
    ) -> None:
        """`holders` returns the other nodes that have copies of an object."""
        self._prefix = prefix
        self._clock = clock
        self._send = send
        self._holders = holders
        self._under_way: dict[str, _Broadcast] = {}

    def asked(self, taker: bytes, message: WantSource) -> None:
        """Name a source to a node, or make the node wait. The node may ask more than once."""
        broadcast = self._under_way.setdefault(message.name, _Broadcast(message.size))
        if taker in broadcast.takers:
            self._send(taker, SourceFor(message.name, broadcast.takers[taker][0]))
        elif taker in broadcast.waiting:
            self._send(taker, SourceFor(message.name, b""))
        else:
            broadcast.waiting.append(taker)
        self._assign(message.name, broadcast)

    def on_taker_done(self, name: str, taker: bytes) -> None:
        """Note that a node no longer receives the object: the node has a copy, or did not get a
        copy.
        """
        broadcast = self._under_way.get(name)
        if broadcast is not None and broadcast.takers.pop(taker, None) is not None:
            self._assign(name, broadcast)

    def forget(self, name: str) -> None:
        """Forget an object that is gone. Waiting nodes notice that when they look for a copy."""
        broadcast = self._under_way.pop(name, None)
        for taker in broadcast.waiting if broadcast else ():
            self._send(taker, SourceFor(name, self._prefix))

    def node_gone(self, prefix: bytes) -> None:
        """Forget a dead node. Nodes that copied an object from it continue with the writer's
        copy.
        """
        for name, broadcast in list(self._under_way.items()):
            broadcast.takers.pop(prefix, None)
            if prefix in broadcast.waiting:
                broadcast.waiting.remove(prefix)
            for taker, (source, until) in broadcast.takers.items():
                if source == prefix:
                    broadcast.takers[taker] = (self._prefix, until)
            self._assign(name, broadcast)

    def tick(self, now: float) -> None:
        """Drop nodes whose transfers take far too long, so that they do not delay others."""
        for name, broadcast in list(self._under_way.items()):
            slow = [taker for taker, (_, until) in broadcast.takers.items() if now >= until]
            for taker in slow:
                del broadcast.takers[taker]
            if slow:
                self._assign(name, broadcast)

    def _assign(self, name: str, broadcast: _Broadcast) -> None:
        busy = Counter(source for source, _ in broadcast.takers.values())
        sources = [*sorted(set(self._holders(name)) - broadcast.takers.keys()), self._prefix]
        until = self._clock() + _GRACE_S + broadcast.size / _SLOWEST
        while broadcast.waiting:
            taker = broadcast.waiting[0]
            others = [source for source in sources if source != taker]
            # between sources with equally few takers, the writer comes last
            source = min(others, key=lambda one: busy[one])
            if busy[source] >= AT_ONCE:
                break
            broadcast.waiting.popleft()
            busy[source] += 1
            broadcast.takers[taker] = (source, until)
            self._send(taker, SourceFor(name, source))
        if not broadcast.takers and not broadcast.waiting:
            self._under_way.pop(name, None)


@dataclass
class _Question:
    size: int
    begin: Callable[[list[bytes]], None]
    again_at: float
    silent_since: float


class SourceQuestions:
    """Asks other nodes for the sources of objects that this node wants to copy."""

    def __init__(
        self, clock: Callable[[], float], send: Send, is_dead: Callable[[bytes], bool]
    ) -> None:
        self._clock = clock
        self._send = send
        self._is_dead = is_dead
        self._asked: dict[str, _Question] = {}
        self._told: dict[str, bytes] = {}
        """The source that the writer named for each object that is on its way."""

    def ask(self, name: str, size: int, begin: Callable[[list[bytes]], None]) -> None:
        """Ask for sources of an object, and call `begin` with the nodes from which it can be
        copied, the best one first.
        """
        writer = prefix_of_name(name)
        if size < LARGE_BYTES or self._is_dead(writer):
            begin([writer])
            return
        now = self._clock()
        self._asked[name] = _Question(size, begin, now + ASK_AGAIN_S, now)
        self._send(writer, WantSource(name, size))

    def answered(self, message: SourceFor) -> None:
        """Handle the answer of an object's writer: a source, or that no source is free yet."""
        question = self._asked.get(message.name)
        if question is None:
            return
        if len(message.source) != PREFIX_BYTES:
            question.silent_since = self._clock()
            return
        del self._asked[message.name]
        self._told[message.name] = message.source
        question.begin(list(dict.fromkeys([message.source, prefix_of_name(message.name)])))

    def on_transfer_end(self, name: str, is_here: bool) -> bytes:
        """Note that the transfer of an object has ended. Returns the source that the object's
        writer named for the transfer; if it named none, the writer.

        If the transfer failed, tell the writer that the source is free. If it succeeded, the
        message about the new copy tells the writer so.
        """
        writer = prefix_of_name(name)
        source = self._told.pop(name, None)
        if source is not None and not is_here:
            self._send(writer, SourceFree(name))
        return source or writer

    def node_gone(self, prefix: bytes) -> None:
        """Answer the questions that a dead writer did not answer. The transfers will then fail and
        report the reason.
        """
        for name in [name for name in self._asked if prefix_of_name(name) == prefix]:
            self._asked.pop(name).begin([prefix])

    def tick(self, now: float) -> None:
        """Repeat questions, and drop questions that were not answered in time."""
        for name, question in list(self._asked.items()):
            if now < question.again_at:
                continue
            writer = prefix_of_name(name)
            if now - question.silent_since >= ANSWER_S:
                del self._asked[name]
                question.begin([writer])
            else:
                question.again_at = now + ASK_AGAIN_S
                self._send(writer, WantSource(name, question.size))
