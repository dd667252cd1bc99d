"""The options of Slurm's commands: options with an effect, options without an effect, and refused
options.

Every option of Slurm is listed. The note of an option without effect says why ignoring the option
does no harm. A refused option has the reason for the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec


class Option(msgspec.Struct, frozen=True):
    """One option. `refused`: the reason why the option is refused; "" if it is accepted. `note`:
    the difference from Slurm.
    """

    long: str
    short: str = ""
    takes_value: bool = True
    refused: str = ""
    note: str = ""
    says: bool = False
    """Whether the note is printed when the option is used, because the user might rely on the
    option's effect.
    """
    is_optional: bool = False
    """Whether the value may be left out. A given value is part of the same word as the option."""
    is_ignored: bool = False
    """Whether the option has no effect. The note then says why ignoring the option does no harm."""
    also: str = ""
    """A second letter of the option."""


class OptionError(ValueError):
    """An unknown or refused option, or a wrong value."""


def flag(long: str, short: str = "", refused: str = "", note: str = "") -> Option:
    """Return an option without a value."""
    return Option(long, short, False, refused, note)


def maybe(long: str, short: str = "", refused: str = "", note: str = "") -> Option:
    """Return an option whose value is optional."""
    return Option(long, short, True, refused, note, is_optional=True)


def ignored(long: str, short: str = "", note: str = "", takes_value: bool = True) -> Option:
    """Return an option that is accepted and has no effect."""
    return Option(long, short, takes_value, note=note, is_ignored=True)


_PARTS = "Phalanx counts CPUs, not sockets, cores or threads"
_NOT_HERE = "Phalanx has no such function"
_HINT = "Phalanx has no such preference"
_ABSENT: Final = (
    *(Option(name, refused=_PARTS) for name in ("gpus-per-socket", "thread-spec", "mincpus")),
    *(ignored(name, note=_PARTS) for name in (
        "cores-per-socket", "sockets-per-node", "threads-per-core", "ntasks-per-core",
        "ntasks-per-socket", "hint",
    )),
    ignored("mem-bind", note="tasks are not bound to memory"),
    Option("core-spec", "S", refused=_PARTS),
    ignored("extra-node-info", "B", _PARTS),
    maybe("immediate", "I", refused="a job waits until there is room; `timeout` can end the wait"),
    Option("tres-per-task", refused="use --cpus-per-task and --gpus-per-task"),
    Option("nodefile", "F", refused="use --nodelist"),
    ignored("prefer", note=_HINT),
    ignored("switches", note="a job's network domain is set by networkTopology in its manifest"),
    Option("tmp", refused="disks are not counted"),
    Option("uid", refused="a job cannot choose the account that it runs as"),
    Option("gid", refused="a job cannot choose the account that it runs as"),
    Option("container", refused="commands run directly on nodes, without containers"),
    ignored("acctg-freq", note="each node decides when to measure resource use"),
    *(Option(name, refused=_NOT_HERE) for name in ("bb", "bbf", "cluster-constraint")),
    *(ignored(name, note="jobs do not set the clock speed of CPUs or GPUs") for name in (
        "cpu-freq", "gpu-freq", "power",
    )),
    ignored("delay-boot", note="nodes are not booted for jobs"),
    ignored("gres-flags", note=_PARTS),
    ignored("mcs-label", note="there are no security labels"),
    ignored("network", note=_HINT),
    ignored("profile", note="each node decides when to measure resource use"),
    Option(
        "propagate", note="jobs have the limits (ulimit) of the node's daemon", is_optional=True,
        is_ignored=True,
    ),
    flag("reboot", refused=_NOT_HERE),
    *(ignored(name, note=_HINT, takes_value=False) for name in ("spread-job", "use-min-nodes")),
    Option(
        "no-kill", "k", note="a job that loses a node always ends; unless --no-requeue is "
            "given, it then waits and runs again",
        is_optional=True, is_ignored=True,
    ),
    ignored("gpu-bind", note="a task sees all devices that its job or step holds on the node"),
    ignored("wait-all-nodes", note="members always start together"),
)  # fmt: skip
"""The options of Slurm that have no equivalent here, but that scripts may use."""

RESOURCES: Final = (
    Option("account", "A", note="only a note that squeue and sacct show; it sets no limits"),
    Option("begin", "b"),
    Option("chdir", "D"),
    Option("clusters", "M", note="only the value phalanx is accepted: there is one cluster"),
    Option("comment", note="only a note that squeue and sacct show"),
    Option(
        "constraint",
        "C",
        note="labels of nodes, NAME or NAME=VALUE, joined by & (and) or by a vertical bar "
        "(or); counts and brackets are refused",
    ),
    ignored("contiguous", note=_HINT, takes_value=False),
    Option("cpus-per-gpu"),
    Option("cpus-per-task", "c"),
    Option("deadline"),
    Option(
        "dependency",
        "d",
        note="a dependency names whole jobs, not array tasks; with singleton, jobs of the same "
        "name run one after another",
    ),
    Option("exclude", "x", note="nodes that the job avoids, by host name or address"),
    maybe(
        "exclusive",
        note="on each of its nodes, the job requests the number of CPUs that most nodes of "
        "the cluster have; --exclusive=user has the same effect",
    ),
    Option(
        "export",
        note="with NONE, a job gets none of the submitter's variables, only those that each "
        "node sets for all jobs",
    ),
    maybe(
        "get-user-env",
        note="no login shell is started; the job gets the variables of the submitting shell",
    ),
    Option(
        "gpus",
        "G",
        note="number of GPUs for the whole job; it must divide evenly among the job's nodes "
        "or tasks",
    ),
    Option("gpus-per-node"),
    Option("gpus-per-task"),
    Option(
        "gres",
        note="gpu[:TYPE][:N], where TYPE is a value of the node label ray.io/accelerator-type "
        "or a profile of split GPUs, such as 1g.10gb; shard:N for N GiB of a GPU's memory; "
        "mps:N for N percent of a GPU",
    ),
    flag("hold", "H"),
    Option("job-name", "J"),
    Option("licenses", "L", note="NAME[:N],...; the job starts when it gets all of them"),
    Option("mail-type", note="no mail is sent", says=True),
    Option("mail-user", note="no mail is sent", says=True),
    Option(
        "mem",
        note="memory for each node: 4000 (MiB), 4G or 500M; the job's process on a "
        "node is killed if it uses more; 0 reserves no memory",
    ),
    Option("mem-per-cpu"),
    Option("mem-per-gpu"),
    maybe(
        "nice",
        note="VALUE (by default 100) is subtracted from the job's priority, which orders the "
        "queue; it never makes a running job yield its place",
    ),
    Option("nodelist", "w", note="the job gets nodes only from these host names or addresses"),
    Option("nodes", "N", note="for MIN-MAX, the job gets MIN nodes"),
    Option("ntasks", "n"),
    Option("ntasks-per-gpu"),
    Option("ntasks-per-node"),
    flag("overcommit", "O", note="the tasks of a node share the CPUs of one task"),
    ignored(
        "oversubscribe", "s", "jobs never share the resources that they hold", takes_value=False
    ),
    Option("partition", "p", note="the job waits in one queue: the first name of a list"),
    Option(
        "priority",
        note="a job with a higher priority also takes the places of running jobs with a lower one "
        "in its queue, unless the cluster's rules leave out `preempt`; these jobs wait and run "
        "again",
    ),
    Option("qos", "q", note="only a note that squeue and sacct show; it sets no limits"),
    flag("quiet", "Q"),
    Option("reservation", note="name of one reservation; a list is refused"),
    Option("signal", note="[B:]NAME[@SECONDS]; the signal is sent at most 1 s late"),
    Option("time", "t", note="the limit is exact to the second; Slurm rounds it up to minutes"),
    ignored("time-min", note="the time limit is always the value of --time"),
    ignored("verbose", "v", "`phalanx explain JOB` tells why a job waits", takes_value=False),
    Option("wckey", note="only a note that squeue and sacct show"),
    flag("help", "h"),
    flag("usage"),
    flag("version", "V"),
    *_ABSENT,
)
BATCH: Final = (
    *RESOURCES,
    Option(
        "array",
        "a",
        note="each array task runs on one node; all array tasks have the same SLURM_JOB_ID",
    ),
    Option("batch", refused="the script runs on the first of the job's nodes"),
    Option("distribution", "m", note="only block is accepted: tasks are placed in blocks"),
    Option("error", "e"),
    Option("export-file", refused="use --export"),
    ignored("ignore-pbs", note="#PBS lines are never read", takes_value=False),
    Option("input", "i"),
    Option(
        "kill-on-invalid-dep",
        note="only yes is accepted: a job ends when its dependency can never be met",
    ),
    flag("no-requeue"),
    Option("open-mode", note="append (the default, also after a restart) or truncate"),
    Option(
        "output",
        "o",
        note="file name with the patterns %A %a %b %j %J %N %n %s %t %u %x %%; %4j pads with zeros",
    ),
    flag("parsable"),
    flag(
        "requeue", note="the default: a job that is preempted or loses a node waits and runs again"
    ),
    flag("test-only"),
    flag("wait", "W"),
    Option("wrap"),
)
STEP: Final = (
    *RESOURCES,
    ignored(
        "accel-bind",
        note="a task sees all devices that its job or step holds on the node",
    ),
    maybe("bcast", refused="nodes find programs in their own directories"),
    ignored("bcast-exclude", note="nothing is copied"),
    Option("compress", note="nothing is copied", is_optional=True, is_ignored=True),
    ignored("disable-status", "X", "Ctrl-C ends the tasks", takes_value=False),
    ignored("cpu-bind", note="tasks are not bound to CPUs"),
    Option("distribution", "m", note="only block is accepted: tasks are placed in blocks"),
    Option("epilog", refused="run the program at the end of your command"),
    Option("error", "e"),
    ignored("exact", note="steps share the resources of their job", takes_value=False),
    Option("het-group", refused="jobs have one group of nodes"),
    Option("input", "i", note="VALUE: all, none, the number of a task, or a file"),
    Option("jobid", note="id of a running job; srun may be called outside the job"),
    maybe("kill-on-bad-exit", "K", note="VALUE: 0 (the default) or 1"),
    flag("label", "l"),
    Option("mpi", note="for several tasks only the value none is accepted: there is no PMI"),
    ignored("msg-timeout", note="srun sends no messages that could time out"),
    flag("multi-prog"),
    flag("no-allocate", "Z", refused="tasks run only inside jobs"),
    Option("open-mode"),
    Option("output", "o"),
    ignored("overlap", note="steps always share the resources of their job", takes_value=False),
    ignored("preserve-env", "E", "the job's variables are always set", takes_value=False),
    Option("prolog", refused="run the program at the beginning of your command"),
    flag("pty"),
    ignored("quit-on-interrupt", note="Ctrl-C ends the tasks", takes_value=False),
    Option("relative", "r"),
    maybe("resv-ports", refused="a manifest's plugins choose ports"),
    Option("send-libs", note="nothing is copied", is_optional=True, is_ignored=True),
    ignored("slurmd-debug", note="a node's log level is set when it starts"),
    Option("task-epilog", refused="run the program at the end of your command"),
    Option("task-prolog", refused="run the program at the beginning of your command"),
    flag("test-only"),
    ignored("threads", "T", "connections are opened one after another"),
    ignored("unbuffered", "u", "output is never buffered", takes_value=False),
    Option(
        "wait",
        "W",
        note="seconds from the end of the first task until the other tasks are ended; 0 (the "
        "default) sets no limit",
    ),
    maybe("x11", refused="no display is forwarded"),
)
ALLOCATION: Final = (
    *RESOURCES,
    ignored("bell", note="salloc never rings a bell", takes_value=False),
    Option(
        "kill-command", "K", note="the command gets SIGHUP when its job ends", is_optional=True,
        is_ignored=True,
    ),
    ignored("no-bell", note="salloc never rings a bell", takes_value=False),
    flag("no-shell", refused="use sbatch --wrap 'sleep ...' instead"),
    maybe("x11", refused="no display is forwarded"),
)  # fmt: skip

_NAMED: Final = {
    "TIMELIMIT": "time",
    "ARRAY_INX": "array",
    "MEM_PER_NODE": "mem",
    "REQ_SWITCH": "switches",
    "JOB_NUM_NODES": "nodes",
    "NNODES": "nodes",
    "NPROCS": "ntasks",
    "LABELIO": "label",
    "KILL_BAD_EXIT": "kill-on-bad-exit",
    "STDOUTMODE": "output",
    "STDERRMODE": "error",
    "STDINMODE": "input",
    "UNBUFFEREDIO": "unbuffered",
    "MPI_TYPE": "mpi",
    "REMOTE_CWD": "chdir",
    "WORKING_DIR": "chdir",
    "STEP_GRES": "gres",
    "EXPORT_ENV": "export",
    "CPU_FREQ_REQ": "cpu-freq",
    "BURST_BUFFER": "bb",
    "FORMAT2": "Format",
    "NAMES": "name",
    "USERS": "user",
    "LICENSES": "licenses",
    "NAME": "jobname",
}
"""The variables, without prefixes, whose names differ from the names of their options."""
_OF_JOBS: Final = ("SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_ID", "SLURM_CPUS_PER_TASK")
"""The variables that describe jobs and set no options, although their names look like names of
options.
"""


_COMMA = re.compile(r",(?![^\[\]]*\])")


def parts(written: str) -> list[str]:
    """Split a list at commas, and remove blanks; `12_[1,3]` is one part."""
    return [one for one in map(str.strip, _COMMA.split(written)) if one]


def from_environment(
    prefix: str, known: tuple[Option, ...], variables: Mapping[str, str]
) -> dict[str, str]:
    """Return the options that variables such as SBATCH_PARTITION set.

    A variable sets a flag with any value except `0`, `no` and `false`. A variable of a refused
    option is ignored, because it may be meant for another command.
    """
    options = {one.long: one for one in known if one.long not in ("help", "usage", "version")}
    names = {one.upper().replace("-", "_"): one for one in reversed(options)}
    found = {}
    for variable, value in variables.items():
        if not variable.startswith(prefix) or variable in _OF_JOBS:
            continue
        word = variable.removeprefix(prefix)
        option = options.get(names.get(word) or _NAMED.get(word, ""))
        if option is None or option.refused:
            continue
        if option.takes_value:
            found[option.long] = value
        elif value.lower() not in ("0", "no", "false"):
            found[option.long] = ""
    return found
