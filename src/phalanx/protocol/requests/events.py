"""Requests to the head about events of its cluster."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.observe.events import EventPage, EventQuery
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class ListEvents(Request[EventPage]):
    """List events of jobs, gangs, nodes, queues and the head itself.

    Raises ValueError for an invalid query.
    """

    kind: ClassVar[int] = 31
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    query: EventQuery
