"""Requests: structs with typed fields that name the type of their reply.

    class GetActor(Request[KnownActor]):
        kind: ClassVar = 42
        name: str
        namespace: str

To a type checker, `engine.ask(GetActor(name, namespace))` is a KnownActor, and the handler must
return one (`GetActor.handled_by(handler)`). On the wire a request is the number of its kind and the
msgpack array of its fields. Only the process that answers it decodes the fields; a node that passes
it on copies bytes.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from phalanx.errors import ProtocolError
from phalanx.model.principals import Principal
from phalanx.model.raw_bytes import encoded
from phalanx.model.rights import Verb
from phalanx.protocol.wire_errors import WireError, from_wire, is_defect, to_wire

R = TypeVar("R")
Q = TypeVar("Q", bound="Request[Any]")


class Role(enum.Enum):
    """The kinds of processes that send requests."""

    PROCESS = "drivers and workers"
    VISITOR = "commands, and programs that are not drivers yet"
    NODE = "nodes, for themselves"


EVERYBODY = (Role.PROCESS, Role.VISITOR)
NODES = (Role.NODE,)
NEWCOMERS = (Role.VISITOR,)
UNKNOWN = "unknown"
"""The name of requests that have no handler."""


class Effect(enum.Enum):
    """The effect of a request on the head's tables."""

    READS = "nothing"
    """The request only reads, and is answered even when nothing can be written."""
    CHANGES = "something changes or goes"
    """The request changes something. The answer waits until the change is written."""
    ADDS = "there is more"
    """The request adds something, and is refused when the store is short of space."""


class Request(msgspec.Struct, Generic[R], array_like=True):
    """A request, which is answered with a value of type R or with an error."""

    kind: ClassVar[int]
    """The number of this type on the wire. Each type has its own number, and a number is never used
    again.
    """
    verb: ClassVar[Verb]
    """The right that the asker needs for the object that the request names."""
    effect: ClassVar[Effect] = Effect.CHANGES
    asked_by: ClassVar[tuple[Role, ...]] = (Role.PROCESS,)
    """The roles that may send this request; all others are refused."""

    @classmethod
    def handled_by(
        cls: type[Q], handler: Callable[[Asker[R], Q], R | Later]
    ) -> tuple[type[Q], Handler]:
        """Return the entry by which `RequestHandlers` calls `handler` for this type of request."""
        return cls, handler


class Later(enum.Enum):
    """The return value of a handler that does not answer immediately. Such a handler calls
    `Asker.reply` or `Asker.fail` later.
    """

    LATER = 0


LATER = Later.LATER
Send = Callable[[msgspec.Raw, WireError | None], None]
"""The function that sends a reply: the result of a request, or its error."""
Handler = Callable[["Asker[Any]", Any], Any]
Entry = tuple[type[Request[Any]], Handler]
"""A type of requests, with its handler."""

_encode = partial(encoded, msgspec.msgpack.Encoder().encode)
_decoders: dict[type[Request[Any]], tuple[msgspec.msgpack.Decoder[Any], ...]] = {}
NOTHING = msgspec.Raw(_encode(None))
"""The encoded None: the result of a request that is answered with None, and the unused result of a
failed request.
"""


def encode_request(request: Request[Any]) -> msgspec.Raw:
    """Return a request's fields as msgpack; the request's kind travels beside them."""
    return msgspec.Raw(_encode(request))


def decode_request(request_type: type[Q], body: msgspec.Raw) -> Q:
    """Return the decoded request. Raises ProtocolError for fields that do not fit the request."""
    try:
        request: Q = _decoders_of(request_type)[0].decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        name = request_type.__name__
        raise ProtocolError(f"{name} has other fields than these: {error}") from None
    return request


def read_result(
    request: Request[R] | type[Request[R]], result: msgspec.Raw, error: WireError | None
) -> R:
    """Return the decoded answer to a request, or raise the error that is the answer."""
    if error is not None:
        raise from_wire(error)
    asked = request if isinstance(request, type) else type(request)
    answer: R = _decoders_of(asked)[1].decode(result)
    return answer


def reply_type(request_type: type[Request[Any]]) -> Any:
    """Return the type of a request's replies, from the class of the request."""
    (named,) = request_type.__orig_bases__  # type: ignore[attr-defined]
    return named.__args__[0]


def _decoders_of(request_type: type[Request[Any]]) -> tuple[msgspec.msgpack.Decoder[Any], ...]:
    """Return the decoders of a request and its reply. Decoders are made at first use, because most
    processes need few of them.
    """
    found = _decoders.get(request_type)
    if found is None:
        types = (request_type, reply_type(request_type))
        found = _decoders[request_type] = tuple(map(msgspec.msgpack.Decoder, types))
    return found


class Asker(Generic[R]):
    """The asker of a request, and the way to answer it."""

    __slots__ = (
        "_send",
        "about",
        "is_again",
        "names_owners",
        "node",
        "principal",
        "process",
        "role",
        "within",
    )

    def __init__(
        self,
        role: Role,
        process: bytes,
        send: Send | None,
        node: bytes = b"",
        is_again: bool = False,
    ) -> None:
        """Set up the asker. `send` sends the reply; it is None if nobody waits for a reply."""
        self.role = role
        self.process = process
        """The id of the asking process; "" for a visitor."""
        self.node = node
        """The prefix of the node through which the request reached the head."""
        self.is_again = is_again
        """Whether the request was sent before without an answer, so that it may have been carried
        out.
        """
        self.principal: Principal | None = None
        """The authenticated asker, with the user for whom it asks. None in an engine without
        identities.
        """
        self.about = ""
        """The names of the request's objects for the audit log, if the handler sets them."""
        self.within = ""
        """The submitted job, or the driver's job, from which the request came; "" if it came from
        no job.
        """
        self.names_owners = True
        """Whether the asker may submit work that belongs to another user."""
        self._send = send

    def reply(self, result: R) -> None:
        """Answer the request with its result."""
        if (send := self._take_send()) is not None:
            send(NOTHING if result is None else msgspec.Raw(_encode(result)), None)

    def fail(self, error: BaseException) -> None:
        """Answer the request with an error."""
        if (send := self._take_send()) is not None:
            send(NOTHING, to_wire(error))

    def _take_send(self) -> Send | None:
        """Return the function that sends the answer, and forget it, because a request has one
        answer. The function may refer to this asker; if it were kept, only the garbage collector
        could free both.
        """
        send, self._send = self._send, None
        return send


class RequestHandlers:
    """The handlers of one daemon, one for each type of request that it answers."""

    def __init__(
        self,
        who: str,
        *entries: tuple[type[Request[Any]], Handler],
        on_defect: Callable[[Exception, str], None] | None = None,
    ) -> None:
        """Set up the table.

        `who`: the name of the answering daemon, for error messages. `entries`: types
        of requests with their handlers, as `Request.handled_by` returns them. `on_defect` is called
        with each internal error of a handler and the request's name.
        """
        self._who = who
        self._on_defect = on_defect
        self._entries: dict[int, tuple[type[Request[Any]], Handler]] = {}
        self.add(*entries)

    def add(self, *entries: tuple[type[Request[Any]], Handler]) -> None:
        """Add handlers for these types of requests."""
        for request_type, handler in entries:
            assert request_type.kind not in self._entries, f"{request_type} is answered already"
            self._entries[request_type.kind] = (request_type, handler)

    def __contains__(self, kind: int) -> bool:
        return kind in self._entries

    def effect_of(self, kind: int) -> Effect:
        """Return the effect of requests of this kind; READS for an unknown kind."""
        if kind not in self._entries:
            return Effect.READS
        request_type, _ = self._entries[kind]
        return request_type.effect

    def name_of(self, kind: int) -> str:
        """Return the name of requests of this kind; UNKNOWN for an unknown kind."""
        if kind not in self._entries:
            return UNKNOWN
        request_type, _ = self._entries[kind]
        return request_type.__name__

    @property
    def types(self) -> dict[type[Request[Any]], Handler]:
        """The handler of each type."""
        return dict(self._entries.values())

    def answer(
        self,
        kind: int,
        body: msgspec.Raw,
        asker: Asker[Any],
        check: Callable[[Request[Any]], None] | None = None,
    ) -> None:
        """Answer a request, now or later, with the result or error of its handler. `check` raises
        an error if the asker has no right to send the request.
        """
        entry = self._entries.get(kind)
        try:
            if entry is None:
                raise ValueError(f"{self._who} knows no request of kind {kind}")
            request_type, handler = entry
            if asker.role not in request_type.asked_by:
                allowed = " and ".join(role.value for role in request_type.asked_by)
                raise ValueError(f"{request_type.__name__} may be asked only by {allowed}")
            request = decode_request(request_type, body)
            if check is not None:
                check(request)
            result = handler(asker, request)
        except Exception as error:
            asker.fail(error)
            if self._on_defect is not None and is_defect(error):
                self._on_defect(error, "" if entry is None else entry[0].__name__)
            return
        if result is not LATER:
            asker.reply(result)
