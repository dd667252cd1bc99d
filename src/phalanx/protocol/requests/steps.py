"""What the control store does about the streams of running members: the answers are processes to
connect to, whose ids begin with those of their nodes."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


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


class AttachMember(Request[bytes]):
    """Who stands for the input and output of a member that was submitted with streams.

    Raises JobNotFoundError, and JobCommandError for one without, or that does not run.
    """

    kind: ClassVar[int] = 92
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    job: str
    member: str
