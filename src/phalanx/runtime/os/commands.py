"""Commands of jobs: the variables that they get from their node, and how they ended, in words."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from phalanx.model.accelerators import AMD_RUNTIME
from phalanx.model.environments import VARIABLE
from phalanx.model.exit_codes import NOT_FOUND, NOT_STARTED, SIGNALLED
from phalanx.model.shortages import is_shortage
from phalanx.runtime.containers.finding import CHOSEN
from phalanx.runtime.environments.place import environments_directory
from phalanx.runtime.os.environment import without_our_path
from phalanx.runtime.os.unstarted import why_not_entered, why_not_executed
from phalanx.runtime.os.visible_devices import of_command

_INHERITED = {
    *("HOME", "LOGNAME", "SHELL", "USER", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "XDG_RUNTIME_DIR"),
    *("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PHALANX_ADDRESS", "PHALANX_TOKEN_FILE"),
    *(AMD_RUNTIME, CHOSEN),
}
"""The variables by which a command finds programs, its user, its cluster and its devices. Any other
variable may be a secret.
"""
NAMED = "PHALANX_JOB_ENV"
"""A variable of the node with the names, separated by commas, of more variables that commands get.
A name that ends with a star stands for all names that begin in this way.
"""
PYTHON = "PHALANX_PYTHON"
"""The variable by which a command finds the Python on its node that has this package."""


def inherited(variables: Mapping[str, str]) -> dict[str, str]:
    """Return those variables of a node that the commands of jobs get."""
    variables = without_our_path(variables)
    named = [name.strip() for name in variables.get(NAMED, "").split(",")]
    begins = ("LC_", *(name[:-1] for name in named if name.endswith("*")))
    names = _INHERITED.union(named)
    return {
        name: value for name, value in variables.items() if name in names or name.startswith(begins)
    }


def command_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return all variables of a command: the given ones, and those that the command gets from its
    node.
    """
    return {**_of_node(), **of_command(dict(variables), os.environ)}


@functools.cache
def _of_node() -> dict[str, str]:
    """Return the variables that each command gets from its node. They stay the same while this
    process runs.
    """
    own = {PYTHON: sys.executable, VARIABLE: environments_directory()}
    return inherited(os.environ) | own


def exec_command(
    argv: Sequence[str], variables: Mapping[str, str], directory: str, tell: int = -1
) -> NoReturn:
    """Become `argv`, with the streams of this process. This function never returns.

    `tell`: a descriptor. If processes, memory or descriptors have run out, the number of the error
    is written to it in four bytes.
    """
    code, is_inside = NOT_STARTED, False
    try:
        given = command_variables(variables)
        os.chdir(directory)
        is_inside = True
        os.execvpe(argv[0], list(argv), given)
    except OSError as error:
        if is_shortage(error) and tell >= 0:
            with contextlib.suppress(OSError):
                os.write(tell, (error.errno or 0).to_bytes(4, "little"))
        why = why_not_entered(directory, error)
        if is_inside:
            code, why = why_not_executed(argv[0], given, error)
        with contextlib.suppress(OSError):
            os.write(2, os.fsencode(f"phalanx: {why}\n"))
    finally:
        os._exit(code)


def exit_of(code: int) -> tuple[int, str, int]:
    """Return how a process ended: (exit code as shells report it, reason if known, signal or 0).

    `code` is the process's exit code, or a signal's number with a minus.
    """
    if not code:
        return 0, "", 0
    if code < 0:
        return SIGNALLED - code, f"it was ended by {signal_name(-code)}", -code
    if code == NOT_STARTED:
        return code, f"exit code {NOT_STARTED}: its command could not be started", 0
    if code == NOT_FOUND:
        return code, f"exit code {NOT_FOUND}: its command was not found", 0
    with contextlib.suppress(ValueError):  # this signal does not exist
        name = signal.Signals(code - SIGNALLED).name
        return code, f"exit code {code}, as a shell returns when {name} ended its command", 0
    return code, "", 0


def signal_name(number: int) -> str:
    """Return a signal's name, such as SIGTERM; if it has none, return its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
