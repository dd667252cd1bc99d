"""From whom nodes take a large object that many want: whoever has it gives it to two at a time, and
those then give it on.

So a node's link carries it a few times however many want it, and `n` nodes have it after log3(n)
rounds of two copies. The node that has written an object says who takes it from whom. That is
advice: who gets no answer, or finds no copy where it was sent, takes the object from its writer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from phalanx.model.ids import PREFIX_BYTES
from phalanx.objects.names import prefix_of_name
from phalanx.protocol.cluster_messages import SourceFor, SourceFree, WantSource

LARGE_BYTES = 32 << 20
"""Of smaller ones the question costs more than it saves."""
AT_ONCE = 2
"""So many take it from one node at a time: a slow one must not hold up all others."""
ASK_AGAIN_S = 5.0
"""A question may be lost with its connection."""
ANSWER_S = 10.0
"""Who hears nothing for so long takes it from its writer."""
_GRACE_S = 10.0
_SLOWEST = 20e6
"""Bytes a second: whoever takes longer counts as one that takes nothing any more."""

Send = Callable[[bytes, Any], None]


@dataclass
class _Broadcast:
    """One object: who takes it now, from whom and until when at most; and who waits."""

    size: int
    takers: dict[bytes, tuple[bytes, float]] = field(default_factory=dict)
    waiting: deque[bytes] = field(default_factory=deque)


class Broadcasts:
    """At the node that has written the objects."""

    def __init__(
        self,
        prefix: bytes,
        clock: Callable[[], float],
        send: Send,
        holders: Callable[[str], Collection[bytes]],
    ) -> None:
        """`holders`: the other nodes that have copies of an object."""
        self._prefix = prefix
        self._clock = clock
        self._send = send
        self._holders = holders
        self._under_way: dict[str, _Broadcast] = {}

    def asked(self, taker: bytes, message: WantSource) -> None:
        """A node wants to be told a source, perhaps for the second time."""
        broadcast = self._under_way.setdefault(message.name, _Broadcast(message.size))
        if taker in broadcast.takers:
            self._send(taker, SourceFor(message.name, broadcast.takers[taker][0]))
        elif taker in broadcast.waiting:
            self._send(taker, SourceFor(message.name, b""))
        else:
            broadcast.waiting.append(taker)
        self._assign(message.name, broadcast)

    def ended(self, name: str, taker: bytes) -> None:
        """A node takes the object no more: it has it, or did not get it."""
        broadcast = self._under_way.get(name)
        if broadcast is not None and broadcast.takers.pop(taker, None) is not None:
            self._assign(name, broadcast)

    def gone(self, name: str) -> None:
        """The object is no more: who waits is told so where it looks for it."""
        broadcast = self._under_way.pop(name, None)
        for taker in broadcast.waiting if broadcast else ():
            self._send(taker, SourceFor(name, self._prefix))

    def node_gone(self, prefix: bytes) -> None:
        """A node died. Who took something from it goes on with the writer's."""
        for name, broadcast in list(self._under_way.items()):
            broadcast.takers.pop(prefix, None)
            if prefix in broadcast.waiting:
                broadcast.waiting.remove(prefix)
            for taker, (source, until) in broadcast.takers.items():
                if source == prefix:
                    broadcast.takers[taker] = (self._prefix, until)
            self._assign(name, broadcast)

    def tick(self, now: float) -> None:
        """Time has passed: who takes far too long keeps nobody waiting."""
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
            source = min(others, key=lambda one: busy[one])  # of equals the writer comes last
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
    """At a node that wants copies."""

    def __init__(
        self, clock: Callable[[], float], send: Send, is_dead: Callable[[bytes], bool]
    ) -> None:
        self._clock = clock
        self._send = send
        self._is_dead = is_dead
        self._asked: dict[str, _Question] = {}
        self._told: dict[str, bytes] = {}
        """Of what is on its way: from which node."""

    def ask(self, name: str, size: int, begin: Callable[[list[bytes]], None]) -> None:
        """Call `begin` with the nodes from which the object is to be taken, the first one first."""
        writer = prefix_of_name(name)
        if size < LARGE_BYTES or self._is_dead(writer):
            begin([writer])
            return
        now = self._clock()
        self._asked[name] = _Question(size, begin, now + ASK_AGAIN_S, now)
        self._send(writer, WantSource(name, size))

    def answered(self, message: SourceFor) -> None:
        """An object's writer says who gives it, or that nobody can yet."""
        question = self._asked.get(message.name)
        if question is None:
            return
        if len(message.source) != PREFIX_BYTES:
            question.silent_since = self._clock()
            return
        del self._asked[message.name]
        self._told[message.name] = message.source
        question.begin(list(dict.fromkeys([message.source, prefix_of_name(message.name)])))

    def ended(self, name: str, is_here: bool) -> bytes:
        """A transfer has ended; the node from which it was to be taken first. That a copy is here
        the writer hears anyway."""
        writer = prefix_of_name(name)
        source = self._told.pop(name, None)
        if source is not None and not is_here:
            self._send(writer, SourceFree(name))
        return source or writer

    def node_gone(self, prefix: bytes) -> None:
        """A writer died: there will be no answer, and the transfer will say why."""
        for name in [name for name in self._asked if prefix_of_name(name) == prefix]:
            self._asked.pop(name).begin([prefix])

    def tick(self, now: float) -> None:
        """Time has passed: ask again, and for no answer do without."""
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
