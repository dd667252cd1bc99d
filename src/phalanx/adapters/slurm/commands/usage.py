"""Functions that Slurm's commands share: errors in Slurm's form, `--help` and `--version`."""

from __future__ import annotations

import functools
import os
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import NoReturn

from phalanx.adapters.slurm.options import Option, OptionError, parts
from phalanx.adapters.slurm.words import read_options
from phalanx.cli.ending import Ended
from phalanx.cli.reach import FAILED
from phalanx.cli.table import say

SLURM_VERSION = "25.05.0"
"""The version of Slurm whose options the commands have."""
_USAGE = {
    "sbatch": "[OPTION]... [SCRIPT [ARGUMENT]...]",
    "srun": "[OPTION]... COMMAND [ARGUMENT]...",
    "salloc": "[OPTION]... [COMMAND [ARGUMENT]...]",
    "squeue": "[OPTION]...",
    "sacct": "[OPTION]...",
    "sacctmgr": "[OPTION]... list|show KIND [where] [FIELD=VALUE]...",
    "sinfo": "[OPTION]...",
    "scancel": "[OPTION]... [JOB]...",
    "scontrol": "[OPTION]... SUBCOMMAND [ARGUMENT]...",
    "sprio": "[OPTION]...",
    "sshare": "[OPTION]...",
    "seff": "[OPTION]... JOB...",
}
"""The arguments of each command, for its help."""
_MORE = {
    "sbatch": ("Without SCRIPT, the script is read from standard input.",),
    "salloc": ("Without COMMAND, your shell is started.",),
    "sacctmgr": ("Kinds: account, association, cluster, qos, user. Nothing can be changed.",),
    "scancel": ("JOB is the number of a job (12), or names array tasks (12_7, 12_[1-3]).",),
    "scontrol": (
        "Subcommands:",
        "  show KIND [NAME]...  (kinds: config, daemons, hostnames, hostlist, hostlistsorted, job, "
        "licenses, node, partition, reservation, step, topology)",
        "  hold | uhold | release | suspend | resume | requeue JOB...  (suspend ends the job's "
        "members, and resume starts them again from the beginning)",
        "  update JobId=JOB | NodeName=NODE | PartitionName=QUEUE | ReservationName=NAME "
        "FIELD=VALUE...",
        "  create ReservationName=NAME FIELD=VALUE...",
        "  delete ReservationName=NAME",
        "  ping | version",
    ),
}
"""Further lines of the help, by command."""


def read(
    command: str, known: Sequence[Option], words: Sequence[str], intermixed: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Return a command's options and other words, as `read_options` does. Prints notes about
    options.

    Ends the command for a refused option, and after `--help` and `--version`.
    """
    try:
        asked, rest = read_options(command, known, words, intermixed)
    except OptionError as error:
        refuse(command, str(error))
    for note in dict.fromkeys(one.note for one in known if one.says and one.long in asked):
        say(f"{command}: {note}", err=True)
    if "version" in asked:
        from phalanx import __version__

        say(f"slurm {SLURM_VERSION} (Phalanx {__version__})")
        raise Ended
    if "help" in asked or "usage" in asked:
        say(_help(command, known))
        raise Ended
    return asked, rest


def refuse(command: str, text: str) -> NoReturn:
    """End the command with an error in one sentence."""
    said = text if text.startswith(f"{command}:") else f"{command}: error: {text}"
    say(said, err=True)
    raise Ended(FAILED)


def words_of(asked: Mapping[str, str], option: str) -> set[str]:
    """Return the words in the value of an option; an empty set without the option."""
    return set(parts(asked.get(option, "")))


def complain(command: str, texts: Sequence[str]) -> None:
    """Print errors in Slurm's form. The command goes on."""
    for text in texts:
        say(f"{command}: error: {text}", err=True)


def address() -> str | None:
    """Return the cluster's address from the environment, because Slurm's commands have no option
    for it.
    """
    return os.environ.get("PHALANX_ADDRESS") or None


def _help(command: str, known: Sequence[Option]) -> str:
    """Return the help of a command, wrapped at the width of the terminal or, if that is unknown, at
    80 columns.
    """
    width = shutil.get_terminal_size((80, 24)).columns - 1
    lines = [
        f"Phalanx's version of Slurm's {command}.",
        f"Usage: {command} {_USAGE[command]}",
        *_MORE.get(command, ()),
        f"Options (an option without a note works as in Slurm; see `man {command}`):",
    ]
    for one in known:
        if not one.refused:
            short = f"-{one.short}, " if one.short else "    "
            value = ("[=VALUE]" if one.is_optional else "=VALUE") if one.takes_value else ""
            note = f"ignored: {one.note}" if one.is_ignored or one.says else one.note
            lines.append(f"  {short}--{one.long}{value}" + (f"  ({note})" if note else ""))
    refused = ", ".join(f"--{one.long}" for one in known if one.refused)
    lines.append(f"Refused options (giving one prints the reason): {refused}")
    fill = functools.partial(
        textwrap.fill, width=max(width, 40), subsequent_indent=" " * 10, break_on_hyphens=False
    )
    return "\n".join(map(fill, lines))
