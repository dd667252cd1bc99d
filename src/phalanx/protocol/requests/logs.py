"""What the head answers about the logs of daemons and workers."""

from __future__ import annotations

from typing import ClassVar

from phalanx.observe.log_lines import LogPiece
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class ReadProcessLog(Request[LogPiece]):
    """What stands in a daemon's or a worker's log behind `offset` in `file`, see LogPiece; 0 is the
    beginning. Raises ValueError for a node that there is not, and StateQueryError for one that
    gives no answer."""

    kind: ClassVar[int] = 30
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node: str
    """The node's id in hex; empty: the head."""
    worker: str = ""
    """The worker's id, as listings have it; empty: the daemon itself."""
    file: int = 0
    offset: int = 0
