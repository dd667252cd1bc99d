"""The command lines of the tools that run containers.

Each function is pure. It returns the words of a command line for a request, and the variables that
the tool itself needs. All users of the machine can see the words, so these never contain the value
of a variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from phalanx.runtime.containers.requests import ContainerRequest

PODMAN, DOCKER, APPTAINER, SINGULARITY, ENROOT = (
    "podman",
    "docker",
    "apptainer",
    "singularity",
    "enroot",
)
TOOLS = (PODMAN, APPTAINER, SINGULARITY, ENROOT, DOCKER)
"""The tools, in the order of preference. docker is the last one, because its daemon runs the
container: neither the control group nor the memory limit of the member holds for it.
"""
KEEPING = (PODMAN, DOCKER)
"""Tools that keep containers until they are removed."""
RC = "enroot.rc"
"""The file, beside the image, that enroot's first process executes in the container."""
RC_TEXT = """cd "${PHALANX_DIRECTORY:-/}" && exec "$@"\n"""
_DIRECTORY = "PHALANX_DIRECTORY"
_SCHEME = "docker://"
_FILES = re.compile(r"[./]|.*\.(sif|sqsh|simg)\Z", re.DOTALL)
_NUMBERS = re.compile(r"\d+\Z")


class Line(NamedTuple):
    """The words of a tool's command line, and the variables that the tool gets in addition to
    those of the process that starts it.
    """

    argv: list[str]
    variables: dict[str, str]


class MountError(ValueError):
    """Raised if a tool cannot mount a directory because of the directory's name."""


def line_for(tool: str, path: str, request: ContainerRequest, values: Mapping[str, str]) -> Line:
    """Return the command line of the tool at this path.

    `values`: the variables of the process that starts the tool. Raises MountError.
    """
    for one in (*request.bound, *(path for path, _ in request.packages)):
        if ":" in one or "," in one:
            raise MountError(f"{one} cannot be mounted: its name has a colon or a comma")
    return _LINES[tool](path, request, values)


def reference(tool: str, image: str) -> str:
    """Return the name of an image in the form that a tool reads. A name without a registry means
    an image of Docker Hub, whatever the tool.
    """
    if is_file(image):
        return image
    plain = image.removeprefix(_SCHEME)
    first, slash, _ = plain.partition("/")
    if not (slash and (first == "localhost" or "." in first or ":" in first)):
        plain = f"docker.io/{plain}" if slash else f"docker.io/library/{plain}"
    if tool == ENROOT:  # its names are REGISTRY#NAME
        registry, _, rest = plain.partition("/")
        return f"{_SCHEME}{registry}#{rest}"
    return plain if tool in KEEPING else f"{_SCHEME}{plain}"


def is_file(image: str) -> bool:
    """Whether the name of an image is the path of a file or directory."""
    return _FILES.match(image) is not None


def _podman(path: str, request: ContainerRequest, values: Mapping[str, str]) -> Line:
    argv = [path, "run", "--rm", "--name", request.name]
    # Without control groups of its own, the container stays in that of its member.
    argv += ["--network=host", "--ipc=host", "--cgroups=disabled", "--log-driver=none"]
    argv += ["--security-opt=label=disable"]
    argv += [] if request.user.uid == 0 else ["--userns=keep-id"]
    argv += ["--init", f"--init-path={request.init}"] if request.init else []
    argv += [f"--preserve-fds={request.passed}"] if request.passed else []
    argv += _common(request)
    argv += [word for gpu in request.gpus.nvidia for word in ("--device", f"nvidia.com/gpu={gpu}")]
    argv += _amd(request) + _renumbered(request, values)
    return Line([*argv, *_image(PODMAN, request)], {})


def _docker(path: str, request: ContainerRequest, values: Mapping[str, str]) -> Line:
    user = request.user
    argv = [path, "run", "--rm", "--name", request.name]
    argv += ["--network=host", "--ipc=host", "--init", f"--user={user.uid}:{user.gid}"]
    argv += [f"--group-add={group}" for group in user.groups if group != user.gid]
    argv += _common(request)
    if request.gpus.nvidia:
        argv += ["--gpus", f'"device={",".join(request.gpus.nvidia)}"']
    argv += _amd(request) + _renumbered(request, values)
    return Line([*argv, *_image(DOCKER, request)], {})


def _common(request: ContainerRequest) -> list[str]:
    """Return the words that podman and docker share."""
    argv = [f"--ulimit={name}={soft}:{hard}" for name, soft, hard in request.limits]
    argv += [word for one in request.bound for word in ("--volume", f"{one}:{one}")]
    argv += [word for one in request.packages for word in ("--volume", f"{one[0]}:{one[1]}:ro")]
    argv += ["--workdir", request.directory] if request.directory else []
    argv += [word for name in request.variables for word in ("--env", name)]
    argv += ["--interactive"] if request.has_input else []
    argv += ["--tty"] if request.has_terminal else []
    return argv


def _amd(request: ContainerRequest) -> list[str]:
    return ["--device=/dev/kfd", "--device=/dev/dri"] if request.gpus.has_amd else []


def _renumbered(request: ContainerRequest, values: Mapping[str, str]) -> list[str]:
    """Return the options that number the GPUs of a container anew, because the container has only
    its own GPUs.
    """
    gpus = request.gpus.nvidia
    if not gpus or not all(map(_NUMBERS.match, gpus)):
        return []
    return ["--env", f"CUDA_VISIBLE_DEVICES={','.join(map(str, range(len(gpus))))}"]


def _image(tool: str, request: ContainerRequest) -> list[str]:
    return [*request.options, "--entrypoint=", reference(tool, request.image), *request.argv]


def _apptainer(path: str, request: ContainerRequest, values: Mapping[str, str]) -> Line:
    prefix = "SINGULARITYENV_" if path.endswith(SINGULARITY) else "APPTAINERENV_"
    argv = [path, "exec", "--cleanenv"]
    argv += [word for one in request.bound for word in ("--bind", one)]
    argv += [word for one in request.packages for word in ("--bind", f"{one[0]}:{one[1]}:ro")]
    argv += ["--pwd", request.directory] if request.directory else []
    argv += ["--nv"] if request.gpus.nvidia else []
    argv += ["--rocm"] if request.gpus.has_amd else []
    given = {f"{prefix}{name}": values[name] for name in request.variables if name in values}
    image = reference(APPTAINER, request.image)
    return Line([*argv, *request.options, image, *request.argv], given)


def _enroot(path: str, request: ContainerRequest, values: Mapping[str, str]) -> Line:
    argv = [path, "start", "--rc", f"{request.place}/{RC}"]
    argv += [word for one in request.bound for word in ("--mount", f"{one}:{one}")]
    for one, there in request.packages:
        argv += ["--mount", f"{one}:{there}:none:x-create=dir,bind,ro"]
    needed = {
        _DIRECTORY: request.directory or "/",
        "NVIDIA_VISIBLE_DEVICES": ",".join(request.gpus.nvidia) or "void",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    argv += [word for name in (*request.variables, *needed) for word in ("--env", name)]
    return Line([*argv, *request.options, request.image, *request.argv], needed)


_LINES: dict[str, Callable[[str, ContainerRequest, Mapping[str, str]], Line]] = {
    PODMAN: _podman,
    DOCKER: _docker,
    APPTAINER: _apptainer,
    SINGULARITY: _apptainer,
    ENROOT: _enroot,
}
