"""Messages between the head and nodes about bundles, and about members of jobs in them."""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.model.attempts import Used
from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.model.jobs.gang_view import EncodedView
from phalanx.model.member_use import MemberUse


class BundleInventory(msgspec.Struct, array_like=True):
    """The bundles that a node knows, for a head that restarted or that the node joins again.

    `held`: (group, bundle index, attempt, whether it is committed). `ended`: the last attempt of
    each group that ended here.
    """

    held: list[tuple[GroupId, int, int, bool]]
    ended: dict[GroupId, int]


class PrepareBundles(msgspec.Struct, array_like=True, tag=86):
    """Head to node: set aside these bundles of a group, all or none."""

    group: GroupId
    attempt: int
    bundles: dict[int, dict[str, float]]
    ports: list[int] = []
    """Ports that must be free on the node."""


class Prepared(msgspec.Struct, array_like=True, tag=87):
    """Node to head: whether the bundles are set aside, and the devices of each. `busy`: the
    requested ports that are in use.
    """

    group: GroupId
    attempt: int
    ok: bool
    devices: dict[int, dict[str, list[int]]] = {}
    busy: list[int] = []


class CommitBundles(msgspec.Struct, array_like=True, tag=88):
    """Head to node: the prepared bundles may be used. `gangs`: the view of its gang for the member
    of each bundle (`model.jobs.gang_view`).
    """

    group: GroupId
    attempt: int
    gangs: dict[int, EncodedView] = {}


class Committed(msgspec.Struct, array_like=True, tag=97):
    """Node to head: whether the node still had the prepared bundles and has kept them."""

    group: GroupId
    attempt: int
    ok: bool


class GiveBackBundles(msgspec.Struct, array_like=True, tag=89):
    """Head to node: give these bundles of the group back, and end the work in them. The work is
    killed after `grace_s`; with `warn`, it gets SIGTERM at once.
    """

    group: GroupId
    attempt: int
    indexes: list[int]
    warn: bool = False
    grace_s: float = 0.0


class GroupKnown(msgspec.Struct, array_like=True, tag=90):
    """Head to nodes that asked about a group: the group's state, and the nodes of its bundles."""

    group: GroupId
    state: str
    bundles: list[dict[str, float]]
    nodes: list[str]
    """The node id of each bundle's node; empty if it has none."""
    waits_for: str = ""


class BundlesGone(msgspec.Struct, array_like=True, tag=94):
    """Node to head: the work in bundles that were given back has ended, and the bundles are
    free.
    """

    group: GroupId
    attempt: int


FILES = "\0files"
"""Stands in a command for the directory with the job's files, which only the node knows."""
ERROR_FILE = "\0error"
"""Stands in a command for the file to which the member may write why it failed."""


class Streams(msgspec.Struct, array_like=True, frozen=True):
    """A program's input and output go over a connection to `process`, a process id of the node that
    stands for the program. With `is_terminal` the program has a terminal.
    """

    process: bytes
    is_terminal: bool = False
    port: int = 0
    """If not 0, the streams belong to a connection to this port of the node, not to a program."""


class Command(msgspec.Struct, array_like=True):
    """One program of a member: its words, variables, directory and memory limit. `directory` "":
    the member's own directory. `memory_limit`: bytes above which the program is ended; 0: no limit.
    """

    argv: list[str]
    variables: dict[str, str]
    directory: str = ""
    memory_limit: int = 0
    streams: Streams | None = None
    """The program's streams; None: the program has no input, and its output goes to the log."""
    umask: int = -1
    """The umask for the program's files; -1: the umask of the process that started the node."""


class Grant(msgspec.Struct, array_like=True, frozen=True):
    """The head's word that a member may run as an account of its node (the mode *system*)."""

    user: str
    uid: int
    signed: bytes = b""
    """The signed grant, as phalanx-launch reads it; empty where nothing may run, for `refusal`."""
    refusal: str = ""


class StartMember(msgspec.Struct, array_like=True, tag=101):
    """Head to node: run a member's commands in its bundle. Answered by MemberNews.

    The commands of `before` run one after another; then the other commands run at the same time.
    `files` (by name) are written into the job's directory of files. `time_limit_s` 0: no limit.
    `signal` (see WarnMember), if not 0, is sent instead of SIGTERM when the member is evicted;
    SIGTERM follows after half of the grace. `rest_s`: seconds until the commands begin, because the
    member has crashed before.
    """

    group: GangId
    index: int
    attempt: int
    job: JobId
    name: str
    before: list[Command]
    commands: list[Command]
    files: dict[str, str]
    grace_s: float
    time_limit_s: float = 0.0
    signal: int = 0
    only_shell: bool = False
    rest_s: float = 0.0
    is_followed: bool = False
    """Whether a command in the foreground reads all output: no output is dropped before it was
    read.
    """
    start: int = 0
    """The number in the names of this attempt's files; 0: `attempt` is that number. In a bundle
    that several array tasks used one after another, the attempts of all of them are counted.
    """
    grant: Grant | None = None
    """The account that the member runs as; None: the account of its node."""


class RunTask(msgspec.Struct, array_like=True):
    """An array task of a run: its job, its words, and those of its variables that differ from the
    order's variables.
    """

    job: JobId
    argv: list[str]
    variables: dict[str, str]


class ExtendRun(msgspec.Struct, array_like=True, tag=142):
    """Head to node: run these array tasks one after another in a bundle, after the task that runs
    there. The tasks are like the member `like`, and count as its attempts from number `first` on.
    Each begins once the one before it has ended with exit code 0. The order may come twice: the
    node ignores numbers that it has already taken. Ends with exit code 0 are reported in RunNews; a
    task that runs longer, or ends otherwise, is reported in MemberNews.
    """

    first: int
    tasks: list[RunTask]
    like: StartMember
    behind: int = 0
    """The number up to which the head knows how all attempts in the bundle have ended. If a later
    attempt did not end with exit code 0, the node returns the run's tasks, because the head decides
    what follows.
    """


class StopRun(msgspec.Struct, array_like=True, tag=143):
    """Head to node: return the tasks of a run that have not begun. Answered by RunNews, and by
    MemberNews of the running task.
    """

    group: GangId
    index: int


class EndMember(msgspec.Struct, array_like=True, tag=102):
    """Head to node: end a member with SIGTERM, and with SIGKILL after its grace."""

    group: GangId
    index: int
    attempt: int


class WarnMember(msgspec.Struct, array_like=True, tag=115):
    """Head to node: the time of a member is nearly over, so send its commands this signal.

    Each attempt gets it once. With a shell, only what the shell has started gets the signal; with
    `only_shell`, only the shell.
    """

    group: GangId
    index: int
    attempt: int
    signal: int
    only_shell: bool = False


Receivers = Literal["started", "command", "all"]
"""The receivers of a signal. For a command, `started` is the command and all processes that it has
started, without the command itself if it is a shell; `command` is the command alone; `all` is the
command and all processes that it has started. For a member with steps, `started` is all its steps,
`command` its commands, and `all` both. For a member without steps, each word means its commands, as
above.
"""


class SignalMember(msgspec.Struct, array_like=True, tag=127):
    """Head to node: send a signal to these processes of a running member, which goes on. The
    message is lost if the connection ends, and is never sent again.
    """

    group: GangId
    index: int
    attempt: int
    signal: int
    to: Receivers = "started"


class MemberNews(msgspec.Struct, array_like=True, tag=103):
    """Node to head: a member's commands run (`code` None), or have ended. `ran_s`: seconds for
    which the commands have run. `log`: the file with their output. `used`: their usage, once they
    have ended. `is_nodes_fault`: the commands have not begun because the node is unhealthy; the
    member waits again. `signal`: the signal that ended them; 0: none.
    """

    group: GangId
    index: int
    attempt: int
    code: int | None = None
    reason: str = ""
    log: str = ""
    ran_s: float = 0.0
    used: Used | None = None
    is_nodes_fault: bool = False
    signal: int = 0
    is_parent_killed: bool = False
    """Whether the commands have ended because the parent process of one was killed, most likely by
    the command itself.
    """


class RunEnd(msgspec.Struct, array_like=True):
    """A task of a run has ended with exit code 0, `ago_s` seconds before this message was sent."""

    attempt: int
    used: Used
    ago_s: float = 0.0


class RunNews(msgspec.Struct, array_like=True, tag=144):
    """Node to head: tasks of a run have ended with exit code 0, and others are returned. `log`: the
    file with the output of the first ended task. `returned`: the first and the last number of the
    attempts that will not begin; None: no attempt is returned. A repeated message changes nothing.
    """

    group: GangId
    index: int
    ended: list[RunEnd]
    log: str = ""
    returned: tuple[int, int] | None = None


class MemberUsed(msgspec.Struct, array_like=True, tag=126):
    """Node to head: the usage of an evicted member. No other message reports the member's end."""

    group: GangId
    index: int
    attempt: int
    used: Used


class StartStep(msgspec.Struct, array_like=True, tag=116):
    """Head to node: run one more program inside a running member. Answered by StepStarted.

    The program ends with the member; its own end does not concern the member. The order is lost if
    the connection ends.
    """

    token: int
    group: GangId
    index: int
    attempt: int
    command: Command
    step: int = -1
    """The number of the step that the program is a task of; -1: of no step, and the program's end
    is not reported.
    """
    task: int = 0
    """The number of the task within the step."""


class StepEnded(msgspec.Struct, array_like=True, tag=125):
    """Node to head: a task of a step has ended, with its usage. `is_cut`: the task was ended with
    its member. The message comes before the news of the member's end; a repeated one counts once.
    """

    group: GangId
    index: int
    attempt: int
    step: int
    task: int
    code: int
    is_cut: bool
    used: Used
    signal: int = 0
    """The signal that ended the task; 0: none."""


class StepStarted(msgspec.Struct, array_like=True, tag=117):
    """Node to head: whether a step begins; if not, why."""

    token: int
    refusal: str = ""


class ForgetJob(msgspec.Struct, array_like=True, tag=104):
    """Head to nodes: the job is gone; delete the files of its members."""

    job: JobId


class ReadLog(msgspec.Struct, array_like=True, tag=105):
    """Head to node: read a member's log from `offset` on; answered by LogRead."""

    token: int
    path: str
    offset: int
    limit: int
    is_followed: bool = False
    """Whether the reader has everything before the offset, and wants all that follows."""


class ReadMemberUse(msgspec.Struct, array_like=True, tag=146):
    """Head to node: tell what the member whose log is at `path` uses; answered by
    MemberUseRead.
    """

    token: int
    path: str


class MemberUseRead(msgspec.Struct, array_like=True, tag=147):
    """Node to head: the usage of a member; without points if it does not run."""

    token: int
    use: MemberUse


class LogRead(msgspec.Struct, array_like=True, tag=106):
    """Node to head: a part of a log, and the size of the whole log in bytes; -1: there is no such
    file.

    `skipped`: bytes missing from the offset on, after which `data` begins.
    """

    token: int
    data: bytes
    size: int
    skipped: int = 0


class ClaimRoom(msgspec.Struct, array_like=True, tag=108):
    """Head to node: keep these amounts free for a waiting gang, for `seconds`. Only tasks that come
    after the gang in the node's order are held back. Without needs: keep nothing free any more.
    """

    group: GangId
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
    | ExtendRun
    | StopRun
    | RunNews
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
    | ReadMemberUse
    | MemberUseRead
    | ClaimRoom
)
