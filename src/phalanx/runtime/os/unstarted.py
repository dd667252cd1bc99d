"""Why a command could not be started: its exit code, and a clause that names what is missing."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from phalanx.model.exit_codes import NOT_FOUND, NOT_STARTED

_FIRST_LINE_BYTES = 256
"""The bytes of a script's first line that Linux reads."""


def why_not_entered(directory: str, error: OSError) -> str:
    """Return why a command's directory could not be entered."""
    if isinstance(error, FileNotFoundError):
        return f"there is no directory {directory} on this node"
    return f"the directory {directory} cannot be entered: {error.strerror}"


def why_not_executed(name: str, variables: Mapping[str, str], error: OSError) -> tuple[int, str]:
    """Return (exit code, reason) for a command whose program could not be executed. `name`: its
    first word. `variables`: its environment, with its PATH.
    """
    if error.errno == errno.ENOEXEC:
        reason = "is no program, and its first line does not name an interpreter, as #!/bin/sh does"
        return NOT_STARTED, f"{name} {reason}"
    if not isinstance(error, FileNotFoundError):
        return NOT_STARTED, f"{name} could not be started: {error.strerror}"
    directories = [""] if os.path.dirname(name) else os.get_exec_path(variables)
    for path in (os.path.join(directory, name) for directory in directories):
        if os.path.isfile(path):
            return NOT_FOUND, _why_not_run(path)
    return NOT_FOUND, f"there is no command {name}"


def _why_not_run(path: str) -> str:
    """Return why a file that exists is reported as missing: the program that runs it is missing."""
    try:
        with open(path, "rb") as file:
            line = file.readline(_FIRST_LINE_BYTES)
    except OSError as error:
        return f"{path} could not be started: {error.strerror}"
    if not line.startswith(b"#!"):
        return f"{path} is built for another system: its loader is not on this node"
    interpreter = os.fsdecode((line[2:].split() or [b""])[0])
    return f"the interpreter {interpreter} of {path} is not on this node"
