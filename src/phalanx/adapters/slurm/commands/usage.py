"""Functions that Slurm's commands share: errors in Slurm's form, `--help` and `--version`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NoReturn

from phalanx.adapters.slurm.options import Option, OptionError, parts
from phalanx.adapters.slurm.words import read_options
from phalanx.cli.ending import Ended
from phalanx.cli.reach import FAILED
from phalanx.cli.table import say

SLURM_VERSION = "25.05.0"
"""The version of Slurm whose options the commands have."""


def read(
    command: str, known: Sequence[Option], words: Sequence[str], intermixed: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Read a command's arguments (`read_options`).

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
    lines = [
        f"{command}: Slurm's command, run by Phalanx.",
        f"Options (an option without a note works as in Slurm; see `man {command}`):",
    ]
    for one in known:
        if not one.refused:
            short = f"-{one.short}, " if one.short else "    "
            value = ("[=VALUE]" if one.is_optional else "=VALUE") if one.takes else ""
            note = f"ignored: {one.note}" if one.is_idle or one.says else one.note
            lines.append(f"  {short}--{one.long}{value}" + (f"  ({note})" if note else ""))
    refused = ", ".join(f"--{one.long}" for one in known if one.refused)
    lines.append(f"Refused options (giving one prints the reason): {refused}")
    return "\n".join(lines)
