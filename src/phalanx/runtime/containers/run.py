"""The program that runs a command of a job in its image, by the tool of the node.

This process belongs to the member, and has the member's account and variables. The node sends its
signals both to this process and to the tool, and the tool passes them on to the container. So this
process ignores signals, waits for the tool, and returns the exit code of the command.
"""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

import msgspec

from phalanx.model.accelerators import AMD, VISIBLE
from phalanx.model.environments import DESCRIPTION, MODULES_IN_IMAGE, Environment
from phalanx.model.exit_codes import NOT_STARTED, SIGNALLED
from phalanx.runtime.containers.finding import Tool, find_init, find_tool
from phalanx.runtime.containers.leftovers import name_of, noted, remove, remove_leftovers
from phalanx.runtime.containers.requests import ContainerRequest, Gpus, User
from phalanx.runtime.containers.tools import KEEPING, MountError, line_for
from phalanx.runtime.environments.images import image_in
from phalanx.runtime.os.unstarted import why_not_executed

MARGIN_S = 2.0
"""Seconds before the end of the grace period at which the tool kills the container and removes
it.
"""
_KNOWN = ("TERM", "TZ", "LANG", "LANGUAGE")
_PASSED_ON = ("PHALANX_", "LC_")
_SIGNALS = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1),
    *(signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH, signal.SIGALRM),
)


def names_of(given: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables that a container gets: those of its job, those that
    describe the member, and those of the terminal and the language. All other variables concern
    programs of the node.
    """
    others = (name for name in variables if name in _KNOWN or name.startswith(_PASSED_ON))
    return tuple(sorted({*others, *(name for name in given if name in variables)}))


def gpus_of(variables: Mapping[str, str], *, has_nvidia: bool, has_amd: bool) -> Gpus:
    """Return the GPUs that the variables of a member show. GPUs of a make that the machine lacks
    are left out.
    """
    shown = [one.strip() for one in variables.get(VISIBLE["GPU"], "").split(",") if one.strip()]
    return Gpus(
        nvidia=tuple(shown) if has_nvidia else (),
        has_amd=has_amd and bool(shown or variables.get(AMD)),
    )


def limits_here() -> tuple[tuple[str, int, int], ...]:
    """Return the limits of this process as (name, soft, hard), for the options of a tool. Without
    these options, the tool would set the largest limits that the kernel allows.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        most = int(file.read())  # podman lowers its own limit to this number
    processes = [
        most if limit == resource.RLIM_INFINITY else min(limit, most)
        for limit in resource.getrlimit(resource.RLIMIT_NPROC)
    ]
    return ("nofile", *files), ("nproc", processes[0], processes[1])


def request_for(
    environment: Environment, place: str, given: Sequence[str], argv: Sequence[str], name: str
) -> ContainerRequest:
    """Return the request for a command, from the variables and streams of this process."""
    variables, directory = os.environ, os.getcwd()
    files = os.path.dirname(variables.get("PHALANX_FILES", ""))
    stdin = os.fstat(0)
    is_null = stat.S_ISCHR(stdin.st_mode) and stdin.st_rdev == os.stat(os.devnull).st_rdev
    return ContainerRequest(
        image=image_in(environment, place),
        argv=tuple(argv),
        name=name,
        user=User(os.getuid(), os.getgid(), tuple(os.getgroups())),
        place=place,
        directory="" if directory == "/" else directory,
        mounts=(files,) if os.path.isdir(files) else (),
        variables=names_of(given, variables),
        gpus=gpus_of(
            variables,
            has_nvidia=os.path.exists("/dev/nvidiactl"),
            has_amd=os.path.exists("/dev/kfd"),
        ),
        limits=limits_here(),
        options=environment.options,
        has_input=not is_null,
        has_terminal=os.isatty(0) and os.isatty(1),
        init=find_init(),
    )


def _end_in_time(kill: Sequence[str]) -> None:
    """Ignore all signals from now on, because the tool passes them on. `kill`: the command that
    kills the container.

    The first SIGTERM begins the grace period of the job. Run `kill` shortly before the end of that
    period, because the node then kills all processes here, and none would be left to remove the
    container.
    """
    has_ended = False

    def noted(number: int, frame: FrameType | None) -> None:
        nonlocal has_ended
        if number == signal.SIGTERM and not has_ended:
            has_ended = True
            grace_s = float(os.environ.get("PHALANX_GRACE_S") or 0)
            signal.setitimer(signal.ITIMER_REAL, max(grace_s - MARGIN_S, grace_s / 2, 0.001))
        elif number == signal.SIGALRM and has_ended:
            subprocess.Popen(kill, stdout=subprocess.DEVNULL)

    for number in _SIGNALS:
        signal.signal(number, noted)


def _run(tool: Tool, argv: list[str], variables: dict[str, str], name: str) -> int:
    """Run a tool that keeps containers. Returns its exit code."""
    remove_leftovers()
    _end_in_time([tool.path, "kill", "--signal", "KILL", name])
    with noted(name, tool.path):
        code = subprocess.call(argv, env=os.environ | variables)
        if code < 0:  # the tool itself was killed
            remove(name, tool.path)
    return SIGNALLED - code if code < 0 else code


def main() -> int:
    """Run a command in an image. Returns the exit code.

    The first argument is the directory of the prepared environment. The second has the names of the
    job's variables, separated by commas. The others are the command.
    """
    place, given, *argv = sys.argv[1:]
    with open(os.path.join(place, DESCRIPTION), "rb") as file:
        environment = msgspec.json.decode(file.read(), type=Environment)
    if modules := os.environ.pop(MODULES_IN_IMAGE, ""):
        os.environ["PYTHONPATH"] = modules + os.environ.get("PYTHONPATH", "")
        given += ",PYTHONPATH"
    tool = find_tool()
    if tool is None and environment.is_optional:
        return _without_image(argv)
    if tool is None:
        return _refused(f"no tool for the image {environment.named} is on this node any more")
    name = name_of(os.getpid())
    request = request_for(environment, place, given.split(","), argv, name)
    try:
        line = line_for(tool.name, tool.path, request, os.environ)
    except MountError as error:
        return _refused(str(error))
    if tool.name in KEEPING:
        return _run(tool, line.argv, line.variables, name)
    return os.execve(tool.path, line.argv, os.environ | line.variables)


def _without_image(argv: list[str]) -> int:
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        code, why = why_not_executed(argv[0], os.environ, error)
        return _refused(why, code)


def _refused(why: str, code: int = NOT_STARTED) -> int:
    print(f"phalanx: {why}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
