"""What the head does about running members: signals to them, steps in their places, and
their streams. Those of programs are processes to connect to, whose ids begin with those of their
nodes."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.protocol.bundle_messages import Receivers
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class BeginStep(Request[int]):
    """Begin a step of a job that runs, whose tasks are then asked for by RunStep; its number, which
    no other step of the job has or had. It is accounted for once its tasks have ended.

    Raises JobNotFoundError, JobCommandError for a job that does not run, and ValueError for a
    number of tasks that is none.
    """

    kind: ClassVar[int] = 37
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    argv: list[str]
    tasks: int = 1
    name: str = ""
    """What to call it; "": after its program."""


class RunStep(Request[bytes]):
    """Run one more program in the place of a member that runs ("": the first), with its devices,
    variables and directory, and those given here before them; who stands for its input and output.
    It begins when somebody connects there, and ends with the member.

    Raises JobNotFoundError, and JobCommandError for a member that does not run.
    """

    kind: ClassVar[int] = 91
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    member: str
    argv: list[str]
    is_terminal: bool = False
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    directory: str = ""
    port: int = 0
    """Instead of a program: a connection from the member's node to this port of itself."""
    step: int = -1
    """The step that it is a task of, as BeginStep gave it; -1: none, and nobody keeps account."""
    umask: int = -1
    """Under which it makes files; -1: as the member's first program."""


class SignalJob(Request[int]):
    """Send members of a job that run a signal, those of all elements where it is an array; so many
    were sent it. What follows is theirs: the job goes on as long as they do.

    Raises JobNotFoundError, JobCommandError where nobody runs or a node is not connected, and
    ValueError for no signal.
    """

    kind: ClassVar[int] = 38
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    signal: int
    to: Receivers = "started"
    member: str = ""
    """Only this one; "": all."""


class AttachMember(Request[bytes]):
    """Who stands for the input and output of a member that was submitted with streams.

    Raises JobNotFoundError, and JobCommandError for one without, or that does not run.
    """

    kind: ClassVar[int] = 92
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    member: str
