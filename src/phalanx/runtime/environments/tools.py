"""The command lines of the tools that make environments."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from phalanx.model.environments import CONDA_FILE, LOCK, REQUIREMENTS, Environment

FILES = "files"
"""The directory of an environment with the tool's files."""
CONDA = "conda"
"""The directory, within an environment, that conda makes; or a link to a directory that conda had
made before.
"""


class ToolNotFoundError(Exception):
    """The tool of an environment is not on this node."""


class Step(NamedTuple):
    """A command that makes a part of an environment."""

    argv: list[str]
    variables: Mapping[str, str]
    unless: tuple[str, ...] = ()
    """A command that is run first. If it succeeds, this step is left out. Empty for none."""


def steps(
    environment: Environment, place: str, find: Callable[[str], str | None] | None = None
) -> list[Step]:
    """Return the commands that install an environment's packages into the directory `place`.

    `find` returns the path of a program. Raises ToolNotFoundError.
    """
    found = (find or find_tool)(environment.tool)
    if found is None:
        raise ToolNotFoundError(
            f"{environment.tool} is not on this node: it is neither in the PATH of the node, nor "
            f"beside {sys.executable}"
        )
    return _STEPS[environment.tool](environment, place, found)


def find_tool(name: str) -> str | None:
    """Return the path of a tool; None if the tool is not here. pip is a module of this Python."""
    if name == "pip":
        return sys.executable
    beside = os.path.dirname(sys.executable)
    home = os.path.expanduser("~")
    path = [os.environ.get("PATH", os.defpath), beside]
    path += [f"{home}/.local/bin", f"{home}/.cargo/bin"]
    return shutil.which(name, path=os.pathsep.join(path))


_QUIET = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]


def _own_pip(place: str) -> list[str]:
    """Return the command of pip in the Python of the environment. This pip counts the node's
    packages as installed.
    """
    return [os.path.join(place, "bin", "python"), "-m", "pip"]


def _pip(environment: Environment, place: str, python: str) -> list[Step]:
    pip = _own_pip(place)
    made = []
    if environment.version:
        made.append([*pip, "install", *_QUIET, f"pip{environment.version}"])
    wanted = os.path.join(place, FILES, REQUIREMENTS)
    made.append([*pip, "install", *_QUIET, *environment.options, "-r", wanted])
    if environment.is_checked:
        made.append([*pip, "check", "--disable-pip-version-check"])
    return [Step(argv, {}) for argv in made]


def _uv(environment: Environment, place: str, uv: str) -> list[Step]:
    python = ["--python", os.path.join(place, "bin", "python")]
    files = os.path.join(place, FILES)
    variables = {"UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never", "VIRTUAL_ENV": place}
    made = []
    if environment.version:
        target = os.path.join(place, "uv")
        made = [
            [*_own_pip(place), "install", *_QUIET, "--target", target, f"uv{environment.version}"]
        ]
        uv = os.path.join(target, "bin", "uv")
    if any(name == LOCK for name, _ in environment.files):
        sync = [uv, "sync", "--frozen", "--no-install-project", "--project", files, *python]
        variables["UV_PROJECT_ENVIRONMENT"] = place
        made.append([*sync, *environment.options])
        return [Step(argv, variables) for argv in made]
    wanted = os.path.join(files, REQUIREMENTS)
    made.append([uv, "pip", "install", *python, *environment.options, "-r", wanted])
    if environment.is_checked:
        made.append([uv, "pip", "check", *python])
    return [Step(argv, variables) for argv in made]


_LINK = 'ln -sfn "$CONDA_PREFIX" "$1"'


def _conda(environment: Environment, place: str, conda: str) -> list[Step]:
    where = os.path.join(place, CONDA)
    if environment.named:
        name = environment.named
        which = "--prefix" if os.sep in name else "--name"
        return [Step([conda, "run", which, name, "sh", "-c", _LINK, "sh", where], {})]
    file = os.path.join(place, FILES, CONDA_FILE)
    return [Step([conda, "env", "create", "--yes", "--prefix", where, "--file", file], {})]


_STEPS: dict[str, Callable[[Environment, str, str], list[Step]]] = {
    "pip": _pip,
    "uv": _uv,
    "conda": _conda,
}
