"""The request with which a client reaches its driver."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.protocol.requests.request import Effect, Request, Role


class EnterDriver(Request[bytes]):
    """Let the asker connect once, within a short time, to the driver that runs in this job. The job
    must belong to the asker's user, and the asker must have a token.

    Returns the id of the socket at which the driver waits. Raises JobNotFoundError for an unknown
    job, and JobCommandError while the job has no driver.
    """

    kind: ClassVar[int] = 115
    verb: ClassVar[Verb] = Verb.CHANGE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = (Role.VISITOR,)

    job: str
