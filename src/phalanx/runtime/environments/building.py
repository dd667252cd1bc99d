"""Builds an environment in its directory, by the commands of its tool."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence

import msgspec

from phalanx.model.environments import DESCRIPTION, IMAGE, REQUIREMENTS, Environment
from phalanx.runtime.containers.finding import find_tool as find_container_tool
from phalanx.runtime.environments.images import NO_TOOL, prepare_files, steps_of
from phalanx.runtime.environments.python_path import own_paths
from phalanx.runtime.environments.tools import (
    CONDA,
    FILES,
    Step,
    ToolNotFoundError,
    find_tool,
    steps,
)

_BEHIND = "phalanx_node.pth"
_MOST_OUTPUT = 16 << 20
"""The largest number of bytes of a tool's output that are passed on; the rest is dropped."""


class BuildError(Exception):
    """An environment could not be made. The text says which command failed, and how."""


def build(environment: Environment, place: str, say: Callable[[str], None]) -> None:
    """Make an environment in an empty directory. The tool's output goes to standard output.

    Raises BuildError, ToolNotFoundError and OSError.
    """
    files = os.path.join(place, FILES)
    os.mkdir(files, 0o700)
    with open(os.path.join(place, DESCRIPTION), "wb") as described:
        described.write(msgspec.json.encode(environment))
    requirements = (REQUIREMENTS, "".join(f"{line}\n" for line in environment.packages))
    for name, text in (requirements, *environment.files):
        with open(os.path.join(files, os.path.basename(name)), "w", encoding="utf-8") as file:
            file.write(text)
    if environment.tool == IMAGE:
        wanted = _steps_of_image(environment, place, say)
    elif environment.tool == "conda":
        os.symlink(os.path.join(CONDA, "bin"), os.path.join(place, "bin"))
    else:
        _make_python(place, has_pip=environment.tool == "uv" or _is_here("pip"))
    if environment.tool != IMAGE:
        wanted = steps(environment, place, find_tool)
    deadline = time.monotonic() + (environment.timeout_s or float("inf"))
    for step in wanted:
        if step.unless and _succeeds(step.unless):
            say(f"{step.argv[-1]} is already installed")
            continue
        print("$", *step.argv, flush=True)
        _run(step, place, deadline, environment.timeout_s)


def _steps_of_image(environment: Environment, place: str, say: Callable[[str], None]) -> list[Step]:
    tool = find_container_tool()
    if tool is not None:
        prepare_files(tool, place)
        return steps_of(tool, environment.named, place)
    if not environment.is_optional:
        raise ToolNotFoundError(NO_TOOL.format(environment.named))
    say(f"the image {environment.named} is not used: {NO_TOOL.format(environment.named)}")
    return []


def _succeeds(argv: Sequence[str]) -> bool:
    quiet = subprocess.DEVNULL
    done = subprocess.run(argv, check=False, stdin=quiet, stdout=quiet, stderr=quiet)
    return done.returncode == 0


def _is_here(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def _make_python(place: str, has_pip: bool) -> None:
    """Make a virtual environment. Its Python looks for a package in the environment first, and
    then among the packages of this Python.
    """
    venv.EnvBuilder(symlinks=True, with_pip=not has_pip, clear=False).create(place)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = os.path.join(place, "lib", version, "site-packages")
    with open(os.path.join(packages, _BEHIND), "w", encoding="utf-8") as file:
        for path in own_paths(sys.path):
            file.write(f"import site; site.addsitedir({path!r})\n")


def _run(step: Step, place: str, deadline: float, timeout_s: int) -> None:
    """Run a command, and pass its output on. Raises BuildError if it fails or takes too long."""
    name = " ".join(os.path.basename(word) for word in step.argv[:3])
    process = subprocess.Popen(
        step.argv,
        env=os.environ | step.variables,
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    left = _MOST_OUTPUT
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while data := _next(selector, process.stdout.fileno(), deadline):
                sys.stdout.buffer.write(data[:left])
                sys.stdout.buffer.flush()
                left = max(left - len(data), 0)
        code = process.wait()
    except TimeoutError:
        raise BuildError(
            f"{name} took longer than {timeout_s} s; setup_timeout_seconds in the config of "
            "runtime_env sets another limit"
        ) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
    if code:
        raise BuildError(f"{name} ended with exit code {code}")


def _next(selector: selectors.BaseSelector, fd: int, deadline: float) -> bytes:
    """Return the next output; empty at its end. Raises TimeoutError after the deadline."""
    left_s = deadline - time.monotonic()
    if left_s <= 0 or not selector.select(None if left_s == float("inf") else left_s):
        raise TimeoutError
    return os.read(fd, 1 << 16)
