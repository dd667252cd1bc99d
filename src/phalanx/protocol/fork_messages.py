"""Messages between a node and its fork server.

The frames are those of `protocol.frames`, and go over a socket pair that no other process holds.
Other sockets have other types of messages.
"""

from __future__ import annotations

import msgspec

from phalanx.errors import ProtocolError
from phalanx.protocol.bundle_messages import Receivers, Streams
from phalanx.protocol.node_messages import LogLine

# ---- to the fork server ------------------------------------------------------------------------


class Fork(msgspec.Struct, array_like=True, tag=0):
    """Start a worker with these variables in addition to the fork server's own."""

    worker: bytes
    variables: dict[str, str]


class RunCommand(msgspec.Struct, array_like=True, tag=1):
    """Start a command in its own process group. The fork server answers with Began.

    The command gets these variables in addition to the fork server's own. Its output is appended to
    the file `log`. `memory_bytes`: the memory that the command may use together with all processes
    that it starts; 0 for no limit.
    """

    process: bytes
    argv: list[str]
    variables: dict[str, str]
    directory: str
    log: str
    memory_bytes: int
    streams: Streams | None = None
    """The streams for the command's input and output; the output also goes to the log."""
    umask: int = -1
    """The umask for the command's files, as in `bundle_messages.Command`."""
    grace_s: float = 0.0
    """For a command with streams: the seconds that the command has to end after the last connection
    to its streams has ended.
    """
    exit_file: str = ""
    """The path of the command's exit file, for a command that continues when its node ends; "" for
    a command that ends with its node.
    """
    is_kept: bool = False
    """Whether a command of another account continues, under its account's fork server, when its
    node ends.
    """
    cpus: float = 0.0
    """The CPUs that the command's member holds; 0 for a command that holds none."""


class SendSignal(msgspec.Struct, array_like=True, tag=2):
    """Send this signal to a worker, or to a command's whole process group."""

    process: bytes
    signal: int


class SignalCommand(msgspec.Struct, array_like=True, tag=4):
    """Send this signal to the given processes of a command."""

    process: bytes
    signal: int
    to: Receivers


class ReadOutput(msgspec.Struct, array_like=True, tag=3):
    """Pass on all output that workers have printed so far. The fork server answers with
    OutputRead.
    """


class EndKept(msgspec.Struct, array_like=True, tag=5):
    """End the commands that would otherwise continue without their node, because the node ends on
    purpose.
    """


class ReportCommands(msgspec.Struct, array_like=True, tag=6):
    """Report the commands that an earlier process of the node has started. The fork server answers
    with Commands.
    """


class ForgetEnds(msgspec.Struct, array_like=True, tag=7):
    """Forget how these processes ended, because the head now knows how."""

    processes: list[bytes]


# ---- from the fork server ----------------------------------------------------------------------


class Began(msgspec.Struct, array_like=True, tag=10):
    """A command has begun. `shield`: the pid of the command's shield; 0 for a command without a
    shield.
    """

    process: bytes
    pid: int
    shield: int = 0


class Forked(msgspec.Struct, array_like=True, tag=13):
    """A worker was forked. `shield`: the pid of the worker's shield. The other fields are the file
    descriptors from which the fork server reads the worker's output.
    """

    worker: bytes
    pid: int
    shield: int
    output: int
    errors: int


class Exited(msgspec.Struct, array_like=True, tag=11):
    """A process has ended.

    `code`: its exit code; negative for a signal. `reason`: why the process could not be started
    (`pid` is then 0), or why the kernel ended it, as far as known. `cpu_s`: the CPU seconds of the
    process and of the children that it waited for. `memory`: the bytes of the largest of these
    processes; 0 if unknown.
    """

    process: bytes
    pid: int
    code: int
    reason: str = ""
    cpu_s: float = 0.0
    memory: int = 0
    is_parent_killed: bool = False
    """Whether the process ended because its parent was killed, most likely by the process
    itself.
    """
    is_shortage: bool = False
    """Whether the process could not be started because processes, memory or descriptors had run
    out.
    """


class Commands(msgspec.Struct, array_like=True, tag=14):
    """The kept commands of an account: running commands, and ended commands whose ends the head may
    not know. The pid of a command that is just being started is 0.
    """

    running: list[Began]
    ended: list[Exited]


class OutputRead(msgspec.Struct, array_like=True, tag=12):
    """All output printed so far was passed on."""


ForkMessage = (
    Fork
    | RunCommand
    | SendSignal
    | SignalCommand
    | ReadOutput
    | EndKept
    | ReportCommands
    | ForgetEnds
    | Commands
    | Began
    | Forked
    | Exited
    | OutputRead
    | LogLine
)

_decoder = msgspec.msgpack.Decoder(list[ForkMessage])


def decode_body(body: bytes | bytearray | memoryview) -> list[ForkMessage]:
    """Return the messages of one frame's body. Raises ProtocolError for any other bytes."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a frame that is not of the fork server's channel: {error}") from None
