"""Answers requests to the head. An answer is sent once the changes of its request are stored. While
the store has no room, queries are answered and new work is refused (`full_store.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from phalanx.errors import AuthenticationError
from phalanx.head.effects import HeadEffects
from phalanx.head.full_store import FullStore
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.rights.control import Asked, Rights
from phalanx.model.ids import node_process_id
from phalanx.model.principals import NODE, Principal
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.cluster_messages import ForwardedAsk, ForwardedReply
from phalanx.protocol.requests.request import NOTHING, Asker, Effect, RequestHandlers, Role, Send
from phalanx.protocol.wire_errors import WireError, to_wire

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler


class Visitor(Protocol):
    """A connection to a client that is not a node."""

    @property
    def principal(self) -> Principal:
        """The client's identity, as this process has authenticated it."""
        ...

    @property
    def origin(self) -> str:
        """The client's address, for display."""
        ...

    def send(self, message: msgspec.Struct) -> None:
        """Send the client a message."""
        ...


class Answering:
    """Answers requests that nodes forward, and requests of visitors."""

    def __init__(
        self,
        effects: HeadEffects,
        *,
        handlers: RequestHandlers,
        gang_scheduler: Callable[[], GangScheduler],
        full_store: FullStore,
        rights: Rights,
        nodes: NodeDirectory,
    ) -> None:
        """`handlers`: the head's own handlers. `gang_scheduler` returns the gang scheduler, which
        is created on first use.
        """
        self._effects = effects
        self._handlers = handlers
        self._gang_scheduler = gang_scheduler
        self._full_store = full_store
        self._rights = rights
        self._nodes = nodes

    def answer(self, prefix: bytes, ask: ForwardedAsk) -> None:
        """Reply to a request that a node forwarded."""

        def send(result: msgspec.Raw, error: WireError | None) -> None:
            self._effects.outbox.reply(prefix, ForwardedReply(ask.token, result, error))

        role = Role.PROCESS if ask.origin else Role.VISITOR
        if ask.origin == node_process_id(prefix):
            role = Role.NODE
        reply = send if ask.token else None
        principal = Principal(NODE, prefix.hex()) if role is Role.NODE else ask.principal
        asked = None
        if principal is not None:
            asked = self._rights.asked(principal, ask.origin, self._nodes.display_name(prefix))
        self._answer(ask.kind, ask.body, role, ask.origin, prefix, reply, ask.is_again, asked)

    def answer_visitor(self, visitor: Visitor, ask: Ask) -> None:
        """Reply to a client that is not a node, such as the command line on the head's machine."""

        def send(result: msgspec.Raw, error: WireError | None) -> None:
            visitor.send(Reply(ask.token, result, error))

        try:
            asked = self._rights.asked(visitor.principal, b"", visitor.origin)
        except AuthenticationError as error:
            send(NOTHING, to_wire(error))
            return
        self._answer(ask.kind, ask.body, Role.VISITOR, b"", b"", send, asked=asked)

    def handlers_of(self, kind: int) -> RequestHandlers:
        """Return the handlers for a kind of request. The handlers of queues, gangs and jobs are
        created on first use.
        """
        handlers = self._handlers
        return handlers if kind in handlers else self._gang_scheduler().handlers

    def _answer(
        self,
        kind: int,
        body: msgspec.Raw,
        role: Role,
        process: bytes,
        node: bytes,
        send: Send | None,
        is_again: bool = False,
        asked: Asked | None = None,
    ) -> None:
        """Answer a request once every change that the answer mentions is written. While the store
        is full, queries are answered without waiting for writes, and new work is refused.
        `is_again`: whether the request was sent before, and may already have been carried out.
        """
        handlers, store = self.handlers_of(kind), self._effects.state_store
        effect = handlers.effect_of(kind)
        if (error := self._full_store.refusal(kind, body, effect)) is not None:
            if send is None:
                self._full_store.report(process, kind, body, error)
            Asker[Any](role, process, send, node).fail(error)
            return

        def when_written(result: msgspec.Raw, error: WireError | None) -> None:
            if asked is not None:
                asked.answered(asker.about, error)
            if send is None:
                return
            if effect is Effect.READS:
                store.when_written_or_stalled(partial(send, result, error))
            else:
                store.when_written(partial(send, result, error))

        reply = None if send is None and asked is None else when_written
        asker: Asker[Any] = Asker(role, process, reply, node, is_again)
        check, by = None, ""
        if asked is not None:
            asker.principal, asker.within = asked.principal, asked.within
            asker.names_owners = asked.asking.names_owners
            check, by = asked.check, asked.by
        began = self._effects.clock.now()
        events = self._effects.event_log
        before, events.asking = events.asking, by
        try:
            handlers.answer(kind, body, asker, check)
        finally:
            events.asking = before
        took_s = self._effects.clock.now() - began
        self._effects.meter.observe("phalanx_rpc_seconds", took_s, handlers.name_of(kind))
