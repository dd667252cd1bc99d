"""What the head and nodes say of bundles, and of the members of jobs that run in them."""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.model.attempts import Used


class BundleInventory(msgspec.Struct, array_like=True):
    """All that a node knows of bundles, for a head that restarted or that it joins again.

    `held`: (group, bundle index, attempt, whether it is committed). `ended`: the last attempt of
    each group that ended here.
    """

    held: list[tuple[bytes, int, int, bool]]
    ended: dict[bytes, int]


class PrepareBundles(msgspec.Struct, array_like=True, tag=86):
    """Control to node: set these bundles of a group aside, all or none."""

    group: bytes
    attempt: int
    bundles: dict[int, dict[str, float]]
    ports: list[int] = []
    """To be free on the node."""


class Prepared(msgspec.Struct, array_like=True, tag=87):
    """Node to head: whether they are, and which devices are set aside for each.

    `busy`: those of the ports that somebody uses.
    """

    group: bytes
    attempt: int
    ok: bool
    devices: dict[int, dict[str, list[int]]] = {}
    busy: list[int] = []


class CommitBundles(msgspec.Struct, array_like=True, tag=88):
    """Control to node: what was prepared may be used. `gangs`: what each bundle's member knows
    of its gang (`model.jobs.gang_view`)."""

    group: bytes
    attempt: int
    gangs: dict[int, bytes] = {}


class Committed(msgspec.Struct, array_like=True, tag=97):
    """Node to head: whether what was prepared was still there to be kept."""

    group: bytes
    attempt: int
    ok: bool


class GiveBackBundles(msgspec.Struct, array_like=True, tag=89):
    """Control to node: these bundles of the group go, and what runs in them ends: after `grace_s`,
    with SIGTERM at once if `warn`."""

    group: bytes
    attempt: int
    indexes: list[int]
    warn: bool = False
    grace_s: float = 0.0


class GroupKnown(msgspec.Struct, array_like=True, tag=90):
    """Control to nodes that asked about a group: its state and where its bundles are."""

    group: bytes
    state: str
    bundles: list[dict[str, float]]
    nodes: list[str]
    """The id of each bundle's node; empty where there is none."""
    waits_for: str = ""


class BundlesGone(msgspec.Struct, array_like=True, tag=94):
    """Node to head: what ran in the bundles that were given back has ended; they are free."""

    group: bytes
    attempt: int


FILES = "\0files"
"""In a command, stands for the directory of its job's files, which only the node knows."""
ERROR_FILE = "\0error"
"""In a command, stands for the file in which its member may say why it failed."""


class Streams(msgspec.Struct, array_like=True, frozen=True):
    """That a program's input and output go over a connection: to the process `process`, which
    stands on its node for it. With `is_terminal` it has a terminal."""

    process: bytes
    is_terminal: bool = False
    port: int = 0
    """Where it is no program, but a connection to this port of the node itself."""


class Command(msgspec.Struct, array_like=True):
    """One program of a member: its words, its variables, where it runs ("": the member's own
    directory), and the bytes of memory above which it is ended (0: none)."""

    argv: list[str]
    variables: dict[str, str]
    directory: str = ""
    memory_limit: int = 0
    streams: Streams | None = None
    """Where somebody types and reads; None: it reads nothing, and prints into the log."""
    umask: int = -1
    """Under which its files are made; -1: that of whoever started the node."""


class StartMember(msgspec.Struct, array_like=True, tag=101):
    """Control to node: run a member's commands in its bundle: those of `before` one after another,
    then the others side by side. Answered by MemberNews.

    `files` (by name) go into the job's directory of files. `time_limit_s` 0: none. `signal` (see
    WarnMember), if not 0, comes instead of SIGTERM when its place is taken away, and SIGTERM at
    half of its grace.
    """

    group: bytes
    index: int
    attempt: int
    job: str
    name: str
    before: list[Command]
    commands: list[Command]
    files: dict[str, str]
    grace_s: float
    time_limit_s: float = 0.0
    signal: int = 0
    only_shell: bool = False


class EndMember(msgspec.Struct, array_like=True, tag=102):
    """Control to node: end a member: SIGTERM, and SIGKILL after its grace."""

    group: bytes
    index: int
    attempt: int


class WarnMember(msgspec.Struct, array_like=True, tag=115):
    """Control to node: the time of a member is nearly over: send its commands this signal, each
    start once. Of a shell only what it has started gets it; with `only_shell` only the shell."""

    group: bytes
    index: int
    attempt: int
    signal: int
    only_shell: bool = False


Receivers = Literal["started", "command", "all"]
"""Who gets a signal. Of a command `started`: it and all that it has started, but for a shell, which
is spared; `command`: it alone; `all`: it and all that it has started. Of a member `started`: all of
its steps, and where there are none, its commands so; else its commands, with `all` its steps, too.
"""


class SignalMember(msgspec.Struct, array_like=True, tag=127):
    """Control to node: send these of a member that runs a signal, which is not its end. It is lost
    with the connection, and never sent again."""

    group: bytes
    index: int
    attempt: int
    signal: int
    to: Receivers = "started"


class MemberNews(msgspec.Struct, array_like=True, tag=103):
    """Node to head: a member's commands run (`code` None), for `ran_s` seconds by now, or have
    ended. `log`: the file that its output is in. `used`: what they used, once they have.
    `is_nodes_fault`: they have not begun, as their node is not well; the member waits again.
    `signal`: by which they were ended; 0 by none."""

    group: bytes
    index: int
    attempt: int
    code: int | None = None
    reason: str = ""
    log: str = ""
    ran_s: float = 0.0
    used: Used | None = None
    is_nodes_fault: bool = False
    signal: int = 0


class MemberUsed(msgspec.Struct, array_like=True, tag=126):
    """Node to head: what a member used whose place was taken: there is no other news of its
    end."""

    group: bytes
    index: int
    attempt: int
    used: Used


class StartStep(msgspec.Struct, array_like=True, tag=116):
    """Control to node: run one more program beside those of a member that runs. It ends with the
    member, and how it ends changes nothing for the member. Answered by StepStarted; the question is
    lost with the connection."""

    token: int
    group: bytes
    index: int
    attempt: int
    command: Command
    step: int = -1
    """The number of the step that it is a task of; -1: of none, and its end is not told."""
    task: int = 0
    """Its own number there."""


class StepEnded(msgspec.Struct, array_like=True, tag=125):
    """Node to head: a task of a step has ended, with what it used. `is_cut`: it was ended with
    its member. It comes before the news of its member's end; said twice it counts once."""

    group: bytes
    index: int
    attempt: int
    step: int
    task: int
    code: int
    is_cut: bool
    used: Used
    signal: int = 0
    """By which it was ended; 0: by none."""


class StepStarted(msgspec.Struct, array_like=True, tag=117):
    """Node to head: whether a step begins; else why not."""

    token: int
    refusal: str = ""


class ForgetJob(msgspec.Struct, array_like=True, tag=104):
    """Control to nodes: the job is gone; what its members left behind may go."""

    job: str


class ReadLog(msgspec.Struct, array_like=True, tag=105):
    """Control to node: what stands in a member's log from `offset` on; answered by LogRead."""

    token: int
    path: str
    offset: int
    limit: int


class LogRead(msgspec.Struct, array_like=True, tag=106):
    """Node to head: a part of a log, and how long the whole is; -1: there is no such file.
    `skipped`: so many bytes from the offset on are gone, and `data` stood behind them."""

    token: int
    data: bytes
    size: int
    skipped: int = 0


class ClaimRoom(msgspec.Struct, array_like=True, tag=108):
    """Control to node: keep so much free for a gang that waits, for `seconds`, as far as it comes
    before the tasks that want it; nothing: no longer."""

    group: bytes
    needs: dict[str, float]
    queue: str = ""
    priority: int = 0
    seconds: float = 0.0


BundleMessage = (
    PrepareBundles
    | Prepared
    | CommitBundles
    | Committed
    | GiveBackBundles
    | GroupKnown
    | BundlesGone
    | StartMember
    | EndMember
    | WarnMember
    | SignalMember
    | StartStep
    | StepStarted
    | StepEnded
    | MemberNews
    | MemberUsed
    | ForgetJob
    | ReadLog
    | LogRead
    | ClaimRoom
)
