"""Requests to the head about the logs of daemons and workers."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.observe.log_lines import LogPiece
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class ReadProcessLog(Request[LogPiece]):
    """Read the log of a daemon or worker, from `offset` in `file` on; 0 is the beginning (see
    LogPiece).

    Raises ValueError for an unknown node, and StateQueryError for a node that does not answer.
    """

    kind: ClassVar[int] = 30
    verb: ClassVar[Verb] = Verb.READ
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node: str
    """The node's id in hex; "" for the head."""
    worker: str = ""
    """The worker's id as in listings; "" for the daemon itself."""
    file: int = 0
    offset: int = 0
