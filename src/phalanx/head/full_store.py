"""Refuses new work while the head's store has no room for it.

A request that is repeated because an earlier head died before it answered is not new work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from phalanx.errors import ProtocolError, StoreFullError
from phalanx.head.actors.requests import ActorRequests
from phalanx.head.groups.table import GroupTable
from phalanx.head.key_values import KeyValues
from phalanx.head.state_store import StateStore
from phalanx.model.lifecycle import DEPENDENCIES_UNREADY
from phalanx.protocol.requests.actors import RegisterActor
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.protocol.requests.groups import CreateGroup
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.protocol.requests.key_values import PutValue
from phalanx.protocol.requests.queues import CreateQueue
from phalanx.protocol.requests.request import Effect, decode_request

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler


class FullStore:
    """Decides which requests a head refuses because its store has no room."""

    def __init__(
        self,
        state_store: StateStore,
        *,
        actors: ActorRequests,
        groups: GroupTable,
        values: KeyValues,
        gang_scheduler: Callable[[], GangScheduler],
    ) -> None:
        """`gang_scheduler` returns the gang scheduler, which is created on first use."""
        self._state_store = state_store
        self._actors = actors
        self._groups = groups
        self._values = values
        self._gang_scheduler = gang_scheduler

    def refusal(self, kind: int, body: msgspec.Raw, effect: Effect) -> StoreFullError | None:
        """Return why a request is refused; None if the request is accepted."""
        shortage = self._state_store.shortage
        if effect is not Effect.ADDS or not shortage or not self._is_new(kind, body):
            return None
        return StoreFullError(
            f"The head takes no new work: {shortage}. Running work continues, and new work is "
            "taken again when there is room."
        )

    def report(self, process: bytes, kind: int, body: msgspec.Raw, error: StoreFullError) -> None:
        """Report a refused actor as dead to its owner, because the owner does not wait for an
        answer to its request.
        """
        if kind == RegisterActor.kind:
            self._actors.refuse(process, decode_request(RegisterActor, body), error)

    def _is_new(self, kind: int, body: msgspec.Raw) -> bool:
        """Whether a request asks for new work. A repeated request asks for none. Bytes that are not
        a request ask for none either: their handler will report the error.
        """
        try:
            return not self._is_repeated(kind, body)
        except ProtocolError:
            return False

    def _is_repeated(self, kind: int, body: msgspec.Raw) -> bool:
        """Whether the thing that a request would create exists already, because an earlier head
        handled the request before it died.
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
            record = self._actors.table.get(decode_request(RegisterActor, body).spec.actor)
            return record is not None and record.state != DEPENDENCIES_UNREADY
        return False
