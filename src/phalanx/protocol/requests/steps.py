"""Requests to the head about running members: signals, steps inside them, and streams.

A program with streams has a process id of its own, which begins with the prefix of the program's
node. Connections to this id reach the streams.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.protocol.bundle_messages import Receivers
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class BeginStep(Request[int]):
    """Begin a step of a running job. Returns the step's number, which no other step of the job
    gets.

    RunStep then starts the step's tasks. The step is recorded in the history once its tasks have
    ended. Raises JobNotFoundError, JobCommandError for a job that does not run, and ValueError for
    an invalid number of tasks.
    """

    kind: ClassVar[int] = 37
    verb: ClassVar[Verb] = Verb.CHANGE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    argv: list[str]
    tasks: int = 1
    name: str = ""
    """The step's name; "" for the name of its program."""


class RunStep(Request[bytes]):
    """Run one more program inside a running member ("" for the first member). Returns the process
    id of its input and output.

    The program has the member's devices, variables and directory, unless this request gives others.
    The program begins when a client connects to its streams, and ends with the member. Raises
    JobNotFoundError, and JobCommandError for a member that does not run.
    """

    kind: ClassVar[int] = 91
    verb: ClassVar[Verb] = Verb.CHANGE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    member: str
    argv: list[str]
    is_terminal: bool = False
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    directory: str = ""
    port: int = 0
    """A port of the member's node. If it is not 0, the streams are connected to this port, and no
    program runs.
    """
    step: int = -1
    """The step to which the program belongs, as BeginStep returned it; -1 for a program outside
    steps, which the history does not record.
    """
    umask: int = -1
    """The umask for the program's files; -1 for the umask of the member's first program."""


class SignalJob(Request[int]):
    """Send a signal to the running members of a job or, for an array, of all its array tasks.
    Returns the number of members to which it was sent.

    The job ends only if the signal ends its members. Raises JobNotFoundError, JobCommandError where
    no member runs or a node is not connected, and ValueError for an invalid signal.
    """

    kind: ClassVar[int] = 38
    verb: ClassVar[Verb] = Verb.CHANGE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    signal: int
    to: Receivers = "started"
    member: str = ""
    """The name of the only member to signal; "" for all members."""


class AttachMember(Request[bytes]):
    """Return the process id of the input and output of a member with streams.

    Raises JobNotFoundError, and JobCommandError for a member that has no streams or does not run.
    """

    kind: ClassVar[int] = 92
    verb: ClassVar[Verb] = Verb.CHANGE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    member: str
