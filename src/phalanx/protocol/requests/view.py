"""The request for the nodes that have changed since an earlier view of the cluster."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.requests.request import NODES, Effect, Request, Role


class ViewChanges(msgspec.Struct, array_like=True):
    """The nodes that have changed, and the version of the view with these changes."""

    version: int
    rows: list[ViewRow]


class GetViewChanges(Request[ViewChanges]):
    """Return the nodes that changed after version `since` of the view."""

    kind: ClassVar[int] = 21
    verb: ClassVar[Verb] = Verb.JOIN
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = NODES

    since: int
