"""Why a gang or a job waits, in sentences."""

from __future__ import annotations

from typing import Any

from phalanx.api.gangs import Gang
from phalanx.api.jobs import JobHandle
from phalanx.api.session import engine_or_start
from phalanx.errors import JobNotFoundError
from phalanx.objects.reference import ObjectRef
from phalanx.protocol.requests.gangs import Explain


def explain(what: Gang[Any] | JobHandle | ObjectRef[Any] | str) -> str:
    """Why a gang or job waits, what would change that, and its position in its queue.

    `what`: a gang, one of its references, a job's handle, or the name of either. Raises
    JobNotFoundError when nothing of that name waits or runs.
    """
    engine = engine_or_start()
    if isinstance(what, Gang):
        name = what.group.hex()
    elif isinstance(what, engine.ref_type):
        group = engine.gang_of(what)
        if group is None:
            raise JobNotFoundError("the reference is none of a gang that waits or runs")
        name = group.hex()
    else:
        name = what.uid if isinstance(what, JobHandle) else str(what)
    return str(engine.ask(Explain(name)))
