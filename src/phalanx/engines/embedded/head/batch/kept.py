"""Reading queues and gangs again when the head has restarted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from phalanx.control.jobs.queues import QueueRecord
from phalanx.engines.embedded.head.batch.gangs import Gang

if TYPE_CHECKING:
    from phalanx.engines.embedded.head.batch.shell import BatchShell


def restore(batch: BatchShell, queues: Iterable[bytes], gangs: Iterable[bytes]) -> None:
    """Hand what an earlier head wrote to the shell, in the order in which it came."""
    decode = msgspec.msgpack.decode
    batch.queues.table.restore([decode(row, type=QueueRecord) for row in queues])
    batch.restore(sorted((decode(row, type=Gang) for row in gangs), key=lambda g: g.created))
