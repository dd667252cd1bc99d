"""Answers requests to the head, each once its changes are written.

While the store has no room, questions are answered and new work is refused. A request that is
repeated because an earlier head died before its answer arrived is no new work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from phalanx.errors import AuthenticationError, ProtocolError, StoreFullError
from phalanx.head.actors.table import ActorTable
from phalanx.head.clock import Clock
from phalanx.head.events.event_log import EventLog
from phalanx.head.groups.table import GroupTable
from phalanx.head.key_values import KeyValues
from phalanx.head.outbox import Outbox
from phalanx.head.requests import HeadRequests
from phalanx.head.rights.control import Asked, Rights
from phalanx.head.state_store import StateStore
from phalanx.model.ids import node_process_id
from phalanx.model.lifecycle import DEPENDENCIES_UNREADY
from phalanx.model.principals import NODE, Principal
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.asking import Ask, Reply
from phalanx.protocol.cluster_messages import ForwardedAsk, ForwardedReply
from phalanx.protocol.requests.actors import RegisterActor
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.protocol.requests.groups import CreateGroup
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.protocol.requests.key_values import PutValue
from phalanx.protocol.requests.queues import CreateQueue
from phalanx.protocol.requests.request import (
    NOTHING,
    Asker,
    Effect,
    RequestHandlers,
    Role,
    Send,
    decode_request,
)
from phalanx.protocol.wire_errors import WireError, to_wire

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler


class Visitor(Protocol):
    """A connection to a client that is no node."""

    @property
    def principal(self) -> Principal:
        """The client, as this process has authenticated it."""
        ...

    @property
    def origin(self) -> str:
        """The place where the client is, for display."""
        ...

    def send(self, message: msgspec.Struct) -> None:
        """Send the client a message."""
        ...


class Answering:
    """Answers requests that nodes forward, and requests of visitors."""

    def __init__(
        self,
        outbox: Outbox,
        state_store: StateStore,
        requests: HeadRequests,
        groups: GroupTable,
        actors: ActorTable,
        values: KeyValues,
        event_log: EventLog,
        gang_scheduler: Callable[[], GangScheduler],
        clock: Clock,
        meter: Meter,
        rights: Rights,
        node_name: Callable[[bytes], str],
    ) -> None:
        """`gang_scheduler` returns the gang scheduler, and makes it on first use. `node_name`
        returns the display name of the node with a prefix.
        """
        self._rights = rights
        self._node_name = node_name
        self._event_log = event_log
        self._outbox = outbox
        self._state_store = state_store
        self._requests = requests
        self._groups = groups
        self._actors = actors
        self._values = values
        self._gang_scheduler = gang_scheduler
        self._clock = clock
        self._meter = meter

    def answer(self, prefix: bytes, ask: ForwardedAsk) -> None:
        """Reply to a request that a node forwarded."""

        def send(result: msgspec.Raw, error: WireError | None) -> None:
            self._outbox.reply(prefix, ForwardedReply(ask.token, result, error))

        role = Role.PROCESS if ask.origin else Role.VISITOR
        if ask.origin == node_process_id(prefix):
            role = Role.NODE
        reply = send if ask.token else None
        principal = Principal(NODE, prefix.hex()) if role is Role.NODE else ask.principal
        asked = None
        if principal is not None:
            asked = self._rights.asked(principal, ask.origin, self._node_name(prefix))
        self._answer(ask.kind, ask.body, role, ask.origin, prefix, reply, ask.is_again, asked)

    def answer_visitor(self, visitor: Visitor, ask: Ask) -> None:
        """Reply to a client that is no node, such as the command line on the head's machine."""

        def send(result: msgspec.Raw, error: WireError | None) -> None:
            visitor.send(Reply(ask.token, result, error))

        try:
            asked = self._rights.asked(visitor.principal, b"", visitor.origin)
        except AuthenticationError as error:
            send(NOTHING, to_wire(error))
            return
        self._answer(ask.kind, ask.body, Role.VISITOR, b"", b"", send, asked=asked)

    def handlers_of(self, kind: int) -> RequestHandlers:
        """Return the handlers for a kind of request. Those of queues, gangs and jobs are made on
        first use.
        """
        handlers = self._requests.handlers
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
        """Answer a request once everything that the answer mentions is written.

        While the store is full, nothing waits for writes: questions are answered, and new work is
        refused.
        """
        handlers, store = self.handlers_of(kind), self._state_store
        effect = handlers.effect_of(kind)
        if effect is Effect.ADDS and store.shortage and self._is_new(kind, body):
            error = StoreFullError(
                f"The head takes no new work: {store.shortage}. Running work continues, and new "
                "work is taken again when there is room."
            )
            if kind == RegisterActor.kind and send is None:
                self._requests.refuse_actor(process, decode_request(RegisterActor, body), error)
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
            asker.names_owners = asked.names_owners
            check, by = asked.check, asked.by
        began = self._clock.now()
        with self._event_log.asked_by(by):
            handlers.answer(kind, body, asker, check)
        took_s = self._clock.now() - began
        self._meter.observe("phalanx_rpc_seconds", took_s, handlers.name_of(kind))

    def _is_new(self, kind: int, body: msgspec.Raw) -> bool:
        """Whether a request asks for new work: not if it is repeated, nor for bytes that are no
        request, which its handler will report.
        """
        try:
            return not self._is_repeated(kind, body)
        except ProtocolError:
            return False

    def _is_repeated(self, kind: int, body: msgspec.Raw) -> bool:
        """Whether what a request asks for exists: an earlier head has handled the request, and
        died.
        """
        if kind == CreateGroup.kind:
            return self._groups.get(decode_request(CreateGroup, body).group) is not None
        if kind == PutValue.kind:
            return self._values.is_kept(decode_request(PutValue, body))
        if kind == CreateGang.kind:
            return decode_request(CreateGang, body).group in self._gang_scheduler().registry.gangs
        if kind == CreateQueue.kind:
            name = decode_request(CreateQueue, body).name
            return self._gang_scheduler().queues.table.get(name) is not None
        if kind == ApplyManifests.kind:
            requests = self._gang_scheduler().job_requests
            return requests.is_repeated(decode_request(ApplyManifests, body))
        if kind == RegisterActor.kind:
            record = self._actors.get(decode_request(RegisterActor, body).spec.actor)
            return record is not None and record.state != DEPENDENCIES_UNREADY
        return False
