"""Batch scripts: their checks, their `#SBATCH` lines, and the names of their output files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from phalanx.adapters.slurm.options import OptionError

MAX_SCRIPT_BYTES = 1 << 20
_PATTERN = re.compile(r"%(\d*)([AabjJNnstux%])")
WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"


def directives(script: str) -> list[str]:
    """Return the words of all `#SBATCH` lines before the first command.

    Raises OptionError for a line with unbalanced quotes.
    """
    words: list[str] = []
    for number, line in enumerate(script.splitlines(), 1):
        text = line.strip()
        if line.startswith("#SBATCH"):
            rest = line[len("#SBATCH") :]
            if rest[:1] not in ("", " ", "\t"):
                continue  # such as #SBATCHX: a comment
            try:
                found = shlex.split(rest, comments=True)
            except ValueError as error:
                raise OptionError(f"line {number} of the script: {error}: {text}") from None
            if found[:1] in (["hetjob"], ["packjob"]):
                raise OptionError(
                    f"line {number} of the script: {found[0]}: jobs have one group of nodes, whose "
                    f"members are alike"
                )
            words += found
        elif text and not text.startswith("#"):
            break
    return words


def checked(script: bytes) -> str:
    """Return the text of a batch script. Raises OptionError for a file that Slurm's sbatch would
    refuse.
    """
    if len(script) > MAX_SCRIPT_BYTES:
        raise OptionError(f"the script has {len(script)} bytes; the limit is {MAX_SCRIPT_BYTES}")
    if not script.strip():
        raise OptionError("the script is empty")
    if b"\0" in script:
        raise OptionError("the script has zero bytes: it is a program, not a script")
    if b"\r\n" in script:
        raise OptionError("the script has DOS line breaks (\\r\\n); use \\n")
    if not script.startswith(b"#!"):
        raise OptionError("the first line of a script must be #! and the path of an interpreter")
    return script.decode("utf-8", "surrogateescape")


def file_name(pattern: str, values: Mapping[str, str]) -> str:
    """Replace the letters of a pattern such as `slurm-%j.out`. A letter without a value stays, and
    is replaced by the process that opens the file. If the pattern begins with a backslash, nothing
    is replaced.
    """
    if pattern.startswith("\\"):
        return pattern[1:]

    def value(match: re.Match[str]) -> str:
        width, letter = match.groups()
        if letter == "%":
            return "%"
        found = values.get(letter)
        if found is None:
            return match.group(0)
        if found == f"%{letter}":
            return match.group(0)  # the process that opens the file replaces it with its width
        return found.zfill(min(int(width), 10)) if width and found.isdecimal() else found

    return _PATTERN.sub(value, pattern)
