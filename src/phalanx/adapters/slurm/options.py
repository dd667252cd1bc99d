"""Slurm's options: which a command takes, which it refuses and why; none is passed over."""

from __future__ import annotations

import getopt
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from phalanx.model.nearest import nearest


class Option(msgspec.Struct, frozen=True):
    """One option. `refused`: why it is not taken; "" for one that is. `note`: what is otherwise."""

    long: str
    short: str = ""
    takes: bool = True
    refused: str = ""
    note: str = ""
    says: bool = False
    """Whether the note is printed where the option is given: it asks for what nobody does."""


class OptionError(ValueError):
    """An option that is not taken, or a value that is none."""


def flag(long: str, short: str = "", refused: str = "", note: str = "") -> Option:
    """An option without a value."""
    return Option(long, short, False, refused, note)


_ALL_OR_NONE = "nodes have no names or features to choose by; use a manifest's nodeSelector"
_SHARED = "what a job holds is its own, and the rest of a node is others'"

_PARTS = "nodes have CPUs; sockets, cores and threads are not told apart"
_NOT_HERE = "Slurm has it; nothing here does it"
_ABSENT: Final = (
    *(Option(name, refused=_PARTS) for name in (
        "cores-per-socket", "sockets-per-node", "threads-per-core", "ntasks-per-core",
        "ntasks-per-socket", "gpus-per-socket", "thread-spec", "hint", "mem-bind", "mincpus",
    )),
    Option("core-spec", "S", refused=_PARTS),
    Option("extra-node-info", "B", refused=_PARTS),
    Option("immediate", "I", refused="a job waits until there is room; `timeout` ends who waits"),
    Option("ntasks-per-gpu", refused="use --gpus-per-task"),
    Option("tres-per-task", refused="use --cpus-per-task and --gpus-per-task"),
    Option("nodefile", "F", refused=_ALL_OR_NONE),
    Option("prefer", refused=_ALL_OR_NONE),
    Option("switches", refused="use a manifest's networkTopology"),
    Option("tmp", refused="disks are not counted"),
    Option("uid", refused="jobs run as who started the cluster"),
    Option("gid", refused="jobs run as who started the cluster"),
    Option("container", refused="commands run on nodes as they are"),
    Option("acctg-freq", refused="nodes sample by themselves"),
    *(Option(name, refused=_NOT_HERE) for name in (
        "bb", "bbf", "cpu-freq", "delay-boot", "gpu-freq", "gres-flags", "mcs-label", "network",
        "power", "profile", "propagate",
    )),
    *(flag(name, refused=_NOT_HERE) for name in ("reboot", "spread-job", "use-min-nodes")),
    flag("no-kill", "k", refused="who loses a node ends, and waits again where it may"),
)  # fmt: skip
"""What people's scripts may ask for of Slurm that has no like here."""

RESOURCES: Final = (
    Option("account", "A", note="kept as a note, shown by squeue and sacct; no limits hang on it"),
    Option("begin", "b"),
    Option("chdir", "D"),
    Option("clusters", "M", refused="there is one cluster"),
    Option("comment", note="kept as a note"),
    Option("constraint", "C", refused=_ALL_OR_NONE),
    flag("contiguous", refused=_ALL_OR_NONE),
    Option("cpus-per-gpu", refused="use --cpus-per-task"),
    Option("cpus-per-task", "c"),
    Option("deadline"),
    Option(
        "dependency",
        "d",
        note="singleton: one after another of jobs with this name that say so; none of one element",
    ),
    Option("exclude", "x", refused=_ALL_OR_NONE),
    flag("exclusive", refused=_SHARED),
    Option("export", note="NONE gives the few variables that all jobs get of their node"),
    Option("gpus", "G", note="a number that its nodes or tasks share evenly; no types"),
    Option("gpus-per-node", note="no types"),
    Option("gpus-per-task", note="no types"),
    Option("gres", note="gpu:N alone"),
    flag("hold", "H"),
    Option("job-name", "J"),
    Option("licenses", "L", note="NAME[:N],...; all of them"),
    Option("mail-type", note="no mail is sent", says=True),
    Option("mail-user", note="no mail is sent", says=True),
    Option("mem", note="of each node; what uses more is ended. No 0"),
    Option("mem-per-cpu"),
    Option("mem-per-gpu"),
    Option("nice", refused="use --priority"),
    Option("nodelist", "w", refused=_ALL_OR_NONE),
    Option("nodes", "N", note="one number"),
    Option("ntasks", "n"),
    Option("ntasks-per-node"),
    flag("overcommit", "O", refused="use fewer --cpus-per-task"),
    flag("oversubscribe", "s", refused=_SHARED),
    Option("partition", "p", note="a queue"),
    Option("priority"),
    Option("qos", "q", refused="there are queues (--partition) and priorities"),
    flag("quiet", "Q"),
    Option("reservation", note="one name"),
    Option("signal", note="[B:]NAME[@SECONDS], within a tick of the head"),
    Option("time", "t"),
    Option("time-min", refused="a limit is not stretched or shortened"),
    flag("verbose", "v", refused="there is nothing more to say; `phalanx explain JOB` says why"),
    Option("wckey", note="kept as a note"),
    flag("help", "h"),
    flag("version", "V"),
    *_ABSENT,
)
BATCH: Final = (
    *RESOURCES,
    Option("array", "a", note="elements have one member each, and share SLURM_JOB_ID"),
    Option("error", "e"),
    Option("input", "i"),
    Option("kill-on-invalid-dep", refused="a job whose dependency cannot come true always ends"),
    flag("no-requeue"),
    Option("open-mode", note="append or truncate; append by default, as after a restart"),
    Option("output", "o", note="%A %a %b %j %J %N %n %s %t %u %x %%, and %4j for zeros"),
    flag("parsable"),
    flag("requeue", note="it may run again when it is preempted or loses a node, as by default"),
    flag("test-only"),
    flag("wait", "W"),
    Option("wrap"),
)
STEP: Final = (
    *RESOURCES,
    flag("disable-status", "X", refused="Ctrl-C ends the tasks"),
    Option("cpu-bind", note="none and quiet alone: tasks are not bound to CPUs"),
    Option("distribution", "m", refused="tasks go onto nodes in blocks"),
    Option("error", "e"),
    flag("exact", note="steps share what their job has"),
    Option("gpu-bind", refused="tasks see all devices of their node's share"),
    Option("input", "i", note="all, none, a task's number or a file"),
    Option("jobid", note="a job that runs, also from outside of it"),
    Option("kill-on-bad-exit", "K", note="0 or 1"),
    flag("label", "l"),
    Option("mpi", note="none alone; PMI is not spoken"),
    Option("open-mode"),
    Option("output", "o"),
    flag("overlap", note="steps always overlap: they share what their job has"),
    flag("pty"),
    flag("unbuffered", "u", note="always so"),
)
ALLOCATION: Final = (*RESOURCES, flag("no-shell", refused="use sbatch --wrap 'sleep ...'"))


def read_options(
    command: str, known: Sequence[Option], words: Sequence[str], intermixed: bool = False
) -> tuple[dict[str, str], list[str]]:
    """(the options by their long names, the words behind them). An option without a value has "".
    `intermixed`: words may stand before options.

    Raises OptionError for one that is unknown or refused, by name.
    """
    short = "".join(one.short + (":" if one.takes else "") for one in known if one.short)
    long = [one.long + ("=" if one.takes else "") for one in known]
    try:
        read = getopt.gnu_getopt if intermixed else getopt.getopt
        pairs, rest = read(list(words), short, long)
    except getopt.GetoptError as error:
        near = nearest(error.opt, [one.long for one in known])
        raise OptionError(f"{command}: {error.msg}{near}") from None
    names = {f"-{one.short}": one for one in known if one.short}
    names |= {f"--{one.long}": one for one in known}
    found = {}
    for name, value in pairs:
        option = names[name]
        if option.refused:
            raise OptionError(f"{command}: {name} is not there: {option.refused}.")
        found[option.long] = value
    return found, rest


def from_environment(
    prefix: str, known: Sequence[Option], variables: Mapping[str, str]
) -> dict[str, str]:
    """Options that variables like SBATCH_PARTITION set."""
    found = {}
    for one in known:
        value = variables.get(prefix + one.long.upper().replace("-", "_"))
        if value is not None and one.takes and not one.refused:
            found[one.long] = value
    return found
