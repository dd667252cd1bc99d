"""Messages between the head and nodes about bundles, and about members of jobs in them."""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.model.attempts import Used
from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.model.jobs.gang_view import EncodedView
from phalanx.model.member_use import MemberUse
from phalanx.model.packages import Package


class BundleInventory(msgspec.Struct, array_like=True):
    """The bundles that a node knows. The node sends them to the head when the node joins the
    cluster again, or after a restart of the head.

    `held`: (group, bundle index, attempt, whether it is committed). `ended`: the last attempt of
    each group that ended on this node.
    """

    held: list[tuple[GroupId, int, int, bool]]
    ended: dict[GroupId, int]


class PrepareBundles(msgspec.Struct, array_like=True, tag=86):
    """Head to node: set these bundles of a group aside. If one of them does not fit, set none
    aside.
    """

    group: GroupId
    attempt: int
    bundles: dict[int, dict[str, float]]
    ports: list[int] = []
    """The ports that must be free on the node."""


class Prepared(msgspec.Struct, array_like=True, tag=87):
    """Node to head: whether the bundles are set aside, and the devices of each bundle. `busy`: the
    requested ports that are already in use.
    """

    group: GroupId
    attempt: int
    ok: bool
    devices: dict[int, dict[str, list[int]]] = {}
    busy: list[int] = []


class CommitBundles(msgspec.Struct, array_like=True, tag=88):
    """Head to node: the prepared bundles may be used. `gangs`: for the member of each bundle, its
    view of the gang (`model.jobs.gang_view`).
    """

    group: GroupId
    attempt: int
    gangs: dict[int, EncodedView] = {}


class Committed(msgspec.Struct, array_like=True, tag=97):
    """Node to head: whether the node still had the prepared bundles, and keeps them for use."""

    group: GroupId
    attempt: int
    ok: bool


class GiveBackBundles(msgspec.Struct, array_like=True, tag=89):
    """Head to node: return these bundles of the group, and end the work in them. The work is killed
    after `grace_s`; with `warn`, it first gets SIGTERM.
    """

    group: GroupId
    attempt: int
    indexes: list[int]
    warn: bool = False
    grace_s: float = 0.0


class GroupKnown(msgspec.Struct, array_like=True, tag=90):
    """Head to each node that has asked about a group: the state of the group, and the nodes of its
    bundles.
    """

    group: GroupId
    state: str
    bundles: list[dict[str, float]]
    nodes: list[str]
    """The node id of each bundle's node; "" for a bundle without a node."""
    waits_for: str = ""


class BundlesGone(msgspec.Struct, array_like=True, tag=94):
    """Node to head: the work in returned bundles has ended, and the bundles are free."""

    group: GroupId
    attempt: int


FILES = "\0files"
"""A placeholder in a command for the directory with the job's files, whose path only the node
knows.
"""
ERROR_FILE = "\0error"
"""A placeholder in a command for the path of the file to which the member may write why it
failed.
"""

SECRET_FILE = "secret"
"""The name, among a job's files, of the file with the secret of its gang."""


class Streams(msgspec.Struct, array_like=True, frozen=True):
    """The address of a program's input and output: they go over a connection to `process`, the id
    that the node gave to the program. With `is_terminal`, the program has a terminal.
    """

    process: bytes
    is_terminal: bool = False
    port: int = 0
    """If not 0, the streams belong to a connection to this port of the node, and not to a
    program.
    """


class Command(msgspec.Struct, array_like=True):
    """One program of a member. `argv`: the program and its arguments. `directory`: its working
    directory; "" for the member's own directory. `memory_limit`: the bytes above which the program
    is ended; 0 for no limit.
    """

    argv: list[str]
    variables: dict[str, str]
    directory: str = ""
    memory_limit: int = 0
    streams: Streams | None = None
    """The program's streams; None for a program that has no input and writes its output to the
    log.
    """
    umask: int = -1
    """The umask for the program's files; -1 for the umask of the process that started the node."""
    cpus: float = 0.0
    """The number of CPUs that the program's member holds; the node fills it in."""


class Grant(msgspec.Struct, array_like=True, frozen=True):
    """The head's permission for a member to run under an account of the member's node. It is used
    on nodes where jobs run as their submitters.
    """

    user: str
    uid: int
    signed: bytes = b""
    """The signed permission, which phalanx-launch reads. If the member may not run, it is empty,
    and `refusal` says why.
    """
    refusal: str = ""


class StartMember(msgspec.Struct, array_like=True, tag=101):
    """Head to node: run a member's commands in its bundle. The node answers with MemberNews.

    The commands of `before` run one after another; then the other commands run at the same time.
    `files` (by name) are written into the job's directory of files. If `time_limit_s` is 0, there
    is no limit. `signal` (see WarnMember), if not 0, is sent first when the member is evicted;
    SIGTERM follows after half of the grace period. `rest_s`: seconds for which the node waits
    before it starts the commands of a member that has crashed before.
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
    """Whether a command in the foreground reads all output. If so, no output is dropped before that
    command has read it.
    """
    start: int = 0
    """The number of this attempt in the names of its files; 0 if it equals `attempt`. The two
    numbers differ in a bundle that several array tasks use one after another: there, `attempt`
    counts the attempts of all these array tasks.
    """
    grant: Grant | None = None
    """The permission to run as another account; None if the member runs as the account of its
    node.
    """
    prepare: Command | None = None
    """The command that prepares the member's environment before all other commands; None: there is
    no environment. Its output has a log of its own. The member then waits for BeginMember.
    """
    environment: str = ""
    """The key of the environment."""
    is_alone: bool = False
    """Whether the job has one member, which begins without BeginMember."""
    packages: list[Package] = []
    """The packages that the node fetches from the head before it prepares the member."""
    after: Command | None = None
    """The command that runs after a member that failed or was ended, when the member's bundle is
    free again. It removes containers that a killed member has left. Nobody waits for this command.
    """

    @property
    def start_number(self) -> int:
        """The number of this attempt in the names of its files and in lines about it."""
        return self.start or self.attempt


class FetchPackage(msgspec.Struct, array_like=True, tag=150):
    """Node to head: send a part of a package from `offset` on. The answer is PackagePart."""

    sha256: str
    offset: int


class PackagePart(msgspec.Struct, array_like=True, tag=151):
    """Head to node: a part of a package of `size` bytes. The size is -1 if the head does not have
    the package.
    """

    sha256: str
    offset: int
    data: bytes
    size: int


class MemberPrepares(msgspec.Struct, array_like=True, tag=154):
    """Node to head: a member's environment is being prepared or, with `is_ready`, is prepared.
    `log`: the file with the member's output.
    """

    group: GangId
    index: int
    attempt: int
    log: str
    is_ready: bool = False


class BeginMember(msgspec.Struct, array_like=True, tag=155):
    """Head to node: run the commands of a prepared member, because the environments of all members
    of its gang are prepared. A repeated order changes nothing.
    """

    group: GangId
    index: int
    attempt: int


class RunTask(msgspec.Struct, array_like=True):
    """One array task of an ExtendRun: its job, its command line, and the variables in which it
    differs from the message's member `like`.
    """

    job: JobId
    argv: list[str]
    variables: dict[str, str]


class ExtendRun(msgspec.Struct, array_like=True, tag=142):
    """Head to node: run these array tasks one after another in a bundle, after the task that runs
    there now.

    Except for command lines and variables, the tasks are equal to the member `like`. The tasks
    count as attempts of that member, from number `first` on. Each task begins when the task before
    it has ended with exit code 0. If the message arrives twice, the node ignores the numbers that
    it already has. RunNews reports ends with exit code 0; MemberNews reports a task that runs
    longer, or ends otherwise.
    """

    first: int
    tasks: list[RunTask]
    like: StartMember
    behind: int = 0
    """The head knows the results of all attempts in the bundle up to this number. If a later
    attempt has ended with another exit code than 0, the node returns the tasks of this message,
    because the head must decide what follows.
    """


class StopRun(msgspec.Struct, array_like=True, tag=143):
    """Head to node: return the tasks of a run that have not begun. The node answers with RunNews,
    and with MemberNews of the running task.
    """

    group: GangId
    index: int


class EndMember(msgspec.Struct, array_like=True, tag=102):
    """Head to node: end a member with SIGTERM, and with SIGKILL when its grace period is over."""

    group: GangId
    index: int
    attempt: int


class WarnMember(msgspec.Struct, array_like=True, tag=115):
    """Head to node: send this signal to the commands of a member whose time is nearly over.

    Each attempt gets the signal once. A command and all processes that it started get the signal,
    except a command that is a shell. With `only_shell`, only the command gets the signal.
    """

    group: GangId
    index: int
    attempt: int
    signal: int
    only_shell: bool = False


Receivers = Literal["started", "command", "all"]
"""The processes that get a signal.

For a command, `all` is the command and all processes that it has started; `command` is the command
alone; `started` is all these processes, except a command that is a shell. For a member with
steps, `started` is all its steps, `command` its commands, and `all` both. For a member without
steps, the words apply to its commands.
"""


class SignalMember(msgspec.Struct, array_like=True, tag=127):
    """Head to node: send a signal to these processes of a running member, which continues to run.
    The message is lost if the connection ends.
    """

    group: GangId
    index: int
    attempt: int
    signal: int
    to: Receivers = "started"


class MemberNews(msgspec.Struct, array_like=True, tag=103):
    """Node to head: a member's commands now run (`code` None), or have ended.

    `ran_s`: the seconds for which the commands have run. `log`: the file with their output. `used`:
    their usage, known when they have ended. `is_nodes_fault`: the commands have not begun because
    the node is unhealthy; the member waits again. `signal`: the signal that ended the commands; 0
    if no signal did.
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
    """Whether the commands have ended because the parent process of a command was killed, most
    likely by that command.
    """
    is_unprepared: bool = False
    """Whether the commands have not begun because the member's environment could not be
    prepared.
    """


class RunEnd(msgspec.Struct, array_like=True):
    """A task of a run has ended with exit code 0, `ago_s` seconds before this message was sent."""

    attempt: int
    used: Used
    ago_s: float = 0.0


class RunNews(msgspec.Struct, array_like=True, tag=144):
    """Node to head: these tasks of a run have ended with exit code 0, and the tasks in `returned`
    will not begin.

    `log`: the file with the output of the first ended task. `returned`: the first and the last
    number of the attempts that will not begin; None if all attempts will begin. A repeated message
    changes nothing.
    """

    group: GangId
    index: int
    ended: list[RunEnd]
    log: str = ""
    returned: tuple[int, int] | None = None


class MemberUsed(msgspec.Struct, array_like=True, tag=126):
    """Node to head: the usage of an evicted member, which has now ended. No other message reports
    its end.
    """

    group: GangId
    index: int
    attempt: int
    used: Used


class StartStep(msgspec.Struct, array_like=True, tag=116):
    """Head to node: run one more program inside a running member. The node answers with
    StepStarted.

    The program ends when the member ends; the member continues when the program ends. The message
    is lost if the connection ends.
    """

    token: int
    group: GangId
    index: int
    attempt: int
    command: Command
    step: int = -1
    """The number of the step to which the program belongs; -1 for a program outside steps, whose
    end is not reported.
    """
    task: int = 0
    """The number of the task within the step."""


class StepEnded(msgspec.Struct, array_like=True, tag=125):
    """Node to head: a task of a step has ended, with its usage.

    `is_cut`: the task was ended because its member ended. The message comes before the news of the
    member's end; a repeated message counts once.
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
    """The signal that ended the task; 0 if no signal did."""


class StepStarted(msgspec.Struct, array_like=True, tag=117):
    """Node to head: a step begins, or the reason why it does not begin."""

    token: int
    refusal: str = ""


class ForgetJob(msgspec.Struct, array_like=True, tag=104):
    """Head to nodes: the job was deleted, so delete the files of its members."""

    job: JobId


class ReadLog(msgspec.Struct, array_like=True, tag=105):
    """Head to node: read a member's log from `offset` on. The node answers with LogRead."""

    token: int
    path: str
    offset: int
    limit: int
    is_followed: bool = False
    """Whether the reader has read everything before the offset, and wants all output that
    follows.
    """


class ReadMemberUse(msgspec.Struct, array_like=True, tag=146):
    """Head to node: report the usage of the member whose log is at `path`. The node answers with
    MemberUseRead.
    """

    token: int
    path: str


class MemberUseRead(msgspec.Struct, array_like=True, tag=147):
    """Node to head: the usage of a member; all lists are empty if the member does not run."""

    token: int
    use: MemberUse


class LogRead(msgspec.Struct, array_like=True, tag=106):
    """Node to head: a part of a log, and the size of the whole log in bytes, or -1 if there is no
    such file.

    `skipped`: the number of bytes after the offset that no longer exist; `data` begins after them.
    """

    token: int
    data: bytes
    size: int
    skipped: int = 0


class ClaimRoom(msgspec.Struct, array_like=True, tag=108):
    """Head to node: keep these amounts free for a waiting gang, for `seconds`.

    Only tasks that come after the gang in the order of the node's demands wait for the gang. A
    message without `needs` ends the claim.
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
    | MemberPrepares
    | FetchPackage
    | PackagePart
    | BeginMember
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
