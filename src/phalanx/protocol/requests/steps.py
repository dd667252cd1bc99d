"""Requests to the head about running members: signals, steps inside them, and streams. A process id
that begins with the prefix of the program's node stands for a program with streams; connections to
this id reach the streams.
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
    """The step's name; "": the name of its program."""


class RunStep(Request[bytes]):
    """Run one more program inside a running member ("": the first member). The program has the
    member's devices, variables and directory, unless this request gives others. The program begins
    when a client connects to its streams, and ends with the member. Returns the process id that
    stands for its input and output. Raises JobNotFoundError, and JobCommandError for a member that
    does not run.
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
    """If not 0: run no program, but connect to this port of the member's node."""
    step: int = -1
    """The step that the program is a task of, as BeginStep returned it; -1: the program belongs to
    no step, and the history does not record it.
    """
    umask: int = -1
    """The umask for the program's files; -1: the umask of the member's first program."""


class SignalJob(Request[int]):
    """Send a signal to the running members of a job or, for an array, of all its array tasks.
    Returns the number of members to which it was sent. The members decide what the signal does: the
    job goes on as long as its members go on. Raises JobNotFoundError, JobCommandError where no
    member runs or a node is not connected, and ValueError for an invalid signal.
    """

    kind: ClassVar[int] = 38
    verb: ClassVar[Verb] = Verb.CHANGE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    signal: int
    to: Receivers = "started"
    member: str = ""
    """The name of the only member to signal; "": all members."""


class AttachMember(Request[bytes]):
    """Return the process id that stands for the input and output of a member with streams.

    Raises JobNotFoundError, and JobCommandError for a member that has no streams or does not run.
    """

    kind: ClassVar[int] = 92
    verb: ClassVar[Verb] = Verb.CHANGE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    member: str
