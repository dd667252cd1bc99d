"""Environments: the software of a job or a task, which uv, pip or conda installs on each node, or
the image of a container in which a job runs.

An environment is identified by its content: environments with equal packages, files and options
have the same key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

IMAGE: Final = "image"
"""The tool of an environment that is an image: the node's own tool for containers."""
IMAGE_FIELDS = ("image_uri", "container")
"""Ray's fields for an image."""
TOOLS = ("uv", "pip", "conda", *IMAGE_FIELDS)
"""The fields of a runtime environment that name an environment; one of them may be given."""
MODULES_IN_IMAGE = "PHALANX_MODULES"
"""The variable with the directories of uploaded modules for a command in an image. They come first
on the command's PYTHONPATH. They have a variable of their own because the program that starts the
container must not import from them.
"""
TOOL_LABEL = "phalanx.io/container"
"""The label of a node with its tool for containers."""
TOOLS_FOR_WORKERS = ("podman", "apptainer", "singularity", "enroot")
"""The tools for containers that can run workers. docker cannot, because the node could not end a
worker that docker's daemon runs.
"""
SETUP_TIMEOUT_S = 600
"""Seconds that the preparation of an environment may take, unless `config` says otherwise; as in
Ray.
"""
MOST_BYTES = 4 << 20
"""The most bytes of an environment's requirements and lock files together."""
VARIABLE = "PHALANX_ENVIRONMENTS"
"""The variable by which a command finds the environments of its account on its node."""
ENVIRONMENT = "PHALANX_ENVIRONMENT"
"""The variable with the description of a worker's environment, as JSON."""
DRIVER_DIRECTORY = "PHALANX_DRIVER_DIRECTORY"
"""The variable with the working directory of the driver of a worker in an environment."""
READY = "ready"
"""The file in an environment that exists when the environment can be used. Processes in the
environment hold it locked.
"""
USED = "used"
"""The file in an environment whose time stamp is the time of the environment's last use."""
DESCRIPTION = "environment.json"
"""The file with the description of an environment, in its directory and among a job's files."""
LOCK, PROJECT, CONDA_FILE = "uv.lock", "pyproject.toml", "environment.yml"
REQUIREMENTS = "requirements.txt"

_REFERENCE = "environment"
_KEY = re.compile("[0-9a-f]{32}")
_FIELDS = {
    "uv": ("packages", "lock", "files", "uv_version", "uv_check", "uv_pip_install_options"),
    "pip": ("packages", "pip_version", "pip_check", "pip_install_options"),
}


class Environment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The software of one environment."""

    tool: Literal["uv", "pip", "conda", "image"]
    packages: tuple[str, ...] = ()
    """Lines of a requirements file."""
    files: tuple[tuple[str, str], ...] = ()
    """Files of the tool, as (name, text): uv.lock and pyproject.toml, or environment.yml."""
    options: tuple[str, ...] = ()
    """More arguments for the command that installs the packages, or runs the container."""
    version: str = ""
    """The version of the tool that is required, such as "==24.0"; "": any."""
    is_checked: bool = False
    """Whether the installed packages are checked for conflicts."""
    named: str = ""
    """The name or the path of an environment of conda that the node has already, or the name of an
    image.
    """
    timeout_s: int = SETUP_TIMEOUT_S
    """Seconds that the preparation of the environment may take; 0: without limit."""
    is_optional: bool = False
    """Whether commands run with the node's own programs on a node without a tool for containers."""

    @property
    def key(self) -> str:
        """The name of the environment in the caches of nodes: the first 32 hex digits of the
        SHA-256 of its content. The timeout is no part of the content.
        """
        import hashlib  # slow to import, and most commands hash nothing

        content = msgspec.structs.asdict(msgspec.structs.replace(self, timeout_s=0))
        if not self.is_optional:
            del content["is_optional"]  # the keys of earlier versions stay valid
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:32]


def given_tool(runtime_env: Mapping[str, Any]) -> str:
    """Return the field of a runtime environment that names an environment; "" without such a field.
    Raises ValueError for several such fields.
    """
    given = [tool for tool in TOOLS if runtime_env.get(tool)]
    if len(given) > 1:
        raise ValueError(
            f"The fields {' and '.join(map(repr, given))} of runtime_env cannot be given at the "
            "same time: an environment is made by one tool."
        )
    return given[0] if given else ""


def read_environment(
    runtime_env: Mapping[str, Any], read: Callable[[str], str]
) -> Environment | None:
    """Return the environment that a runtime environment names; None if it names none.

    `read` returns the text of a file of the submitter. Raises ValueError and TypeError with the
    field and the allowed values, and OSError for a file that cannot be read.
    """
    tool = given_tool(runtime_env)
    if not tool:
        return None
    given = runtime_env[tool]
    timeout_s = max(int((runtime_env.get("config") or {}).get("setup_timeout_seconds", 600)), 0)
    if tool in IMAGE_FIELDS:
        found = _image(tool, given)
    else:
        found = _conda(given, read) if tool == "conda" else _python(tool, given, read)
    found = msgspec.structs.replace(found, timeout_s=timeout_s)
    size = sum(len(text) for text in found.packages) + sum(len(text) for _, text in found.files)
    if size > MOST_BYTES:
        raise ValueError(f"{tool} of runtime_env has {size} bytes; at most {MOST_BYTES}.")
    return found


def is_image(description: str) -> bool:
    """Whether the description of a worker's environment, as JSON, is that of an image."""
    return bool(description) and msgspec.json.decode(description, type=Environment).tool == IMAGE


def reference(environment: Environment) -> dict[str, Any]:
    """Return a short runtime environment that refers to `environment` by its key. It can be used on
    machines where this environment is prepared. The short form is needed because lock files are too
    long for variables of processes.
    """
    return {environment.tool: {_REFERENCE: environment.key}}


def reference_in(runtime_env: Mapping[str, Any]) -> str:
    """Return the key of the environment to which a runtime environment refers; "" if it does not
    refer to one. Raises ValueError for a malformed key.
    """
    tool = given_tool(runtime_env)
    given = runtime_env[tool] if tool else None
    if not isinstance(given, Mapping) or _REFERENCE not in given:
        return ""
    key = given[_REFERENCE]
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError(f"{tool} of runtime_env: {key!r} is not the key of an environment.")
    return key


def written_environment(environment: Environment) -> dict[str, Any]:
    """Return a runtime environment from which `read_environment` makes this environment. It has the
    texts of files in place of their paths.
    """
    tool: str = environment.tool
    files = dict(environment.files)
    given: Any
    if tool == IMAGE:
        tool, given = "container", {"image": environment.named}
        given |= {"run_options": list(environment.options)} if environment.options else {}
    elif tool == "conda":
        given = environment.named or {"files": files}
    else:
        options = "pip_install_options" if tool == "pip" else "uv_pip_install_options"
        given = {"files": files} if files else {"packages": list(environment.packages)}
        given |= {options: list(environment.options)} if environment.options else {}
        given |= {f"{tool}_version": environment.version} if environment.version else {}
        given |= {f"{tool}_check": True} if environment.is_checked else {}
    if environment.timeout_s == SETUP_TIMEOUT_S:
        return {tool: given}
    return {tool: given, "config": {"setup_timeout_seconds": environment.timeout_s or -1}}


def _python(tool: str, given: Any, read: Callable[[str], str]) -> Environment:
    fields = dict(given) if isinstance(given, Mapping) else {"packages": given}
    if unknown := sorted(set(fields) - set(_FIELDS[tool])):
        known = ", ".join(_FIELDS[tool])
        raise ValueError(f"{tool} of runtime_env has no field {unknown[0]!r}; it has {known}.")
    options_name = "pip_install_options" if tool == "pip" else "uv_pip_install_options"
    options = _texts(tool, options_name, fields.get(options_name) or [])
    version = fields.get(f"{tool}_version") or ""
    check = fields.get(f"{tool}_check") or False
    if not isinstance(version, str) or not isinstance(check, bool):
        raise TypeError(f"{tool}_version of {tool} is text, and {tool}_check True or False.")
    packages, lock, files = (fields.get(name) for name in ("packages", "lock", "files"))
    if isinstance(packages, str) and packages.endswith(LOCK):
        packages, lock = None, packages
    about: dict[str, Any] = {"options": options, "version": version, "is_checked": check}
    if files is not None:
        return Environment(tool="uv", files=_files(tool, files, LOCK, PROJECT), **about)
    if lock is not None:
        if packages or not isinstance(lock, str):
            raise ValueError("uv of runtime_env takes packages, or a path to uv.lock, not both.")
        path = lock if lock.endswith(LOCK) else f"{lock.rstrip('/')}/{LOCK}"
        texts = {LOCK: read(path), PROJECT: read(path.removesuffix(LOCK) + PROJECT)}
        return Environment(tool="uv", files=_files(tool, texts, LOCK, PROJECT), **about)
    if isinstance(packages, str):
        packages = read(packages).splitlines()
    return Environment(tool=tool, packages=_texts(tool, "packages", packages), **about)  # type: ignore[arg-type]


def image_named(name: str, options: tuple[str, ...] = (), *, is_optional: bool) -> Environment:
    """Return the environment of an image. Raises ValueError for a text that names no image."""
    if not name or name.startswith("-") or any(c.isspace() or not c.isprintable() for c in name):
        raise ValueError(
            f"{name!r} is no image: an image is a name such as docker.io/library/python:3.12, or "
            "a file"
        )
    return Environment(tool=IMAGE, named=name, options=options, is_optional=is_optional)


def _image(field: str, given: Any) -> Environment:
    fields = dict(given) if isinstance(given, Mapping) else {"image": given}
    if isinstance(given, Mapping) != (field == "container"):
        raise TypeError("image_uri of runtime_env is a name, and container is a mapping.")
    if unknown := sorted(set(fields) - {"image", "run_options"}):
        raise ValueError(
            f"container of runtime_env has no field {unknown[0]!r}; it has image and run_options."
        )
    name = fields.get("image")
    if not isinstance(name, str):
        raise TypeError(f"{field} of runtime_env names an image by text, not by {name!r}.")
    options = _texts("container", "run_options", fields.get("run_options") or [])
    return image_named(name, options, is_optional=False)


def _conda(given: Any, read: Callable[[str], str]) -> Environment:
    if isinstance(given, Mapping) and "files" in given:
        return Environment(tool="conda", files=_files("conda", given["files"], CONDA_FILE))
    if isinstance(given, Mapping):
        text = msgspec.json.encode(given).decode()  # JSON is YAML
        return Environment(tool="conda", files=((CONDA_FILE, text),))
    if not isinstance(given, str):
        raise TypeError("conda of runtime_env is a name, a path to a YAML file, or a mapping.")
    if given.endswith((".yml", ".yaml")):
        return Environment(tool="conda", files=((CONDA_FILE, read(given)),))
    return Environment(tool="conda", named=given)


def _files(tool: str, files: Any, *names: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(files, Mapping) or not all(isinstance(t, str) for t in files.values()):
        raise TypeError(f"files of {tool} in runtime_env is a mapping of names to texts.")
    if set(files) != set(names):
        raise ValueError(f"files of {tool} in runtime_env are {' and '.join(names)}.")
    return tuple((name, files[name]) for name in names)


def _texts(tool: str, field: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise TypeError(
            f"{field} of {tool} in runtime_env is a list of strings, such as "
            f'["numpy==2.2", "requests"], or a path to a requirements file, not {value!r}.'
        )
    if any("\n" in one or "\0" in one for one in value):
        raise ValueError(f"{field} of {tool} in runtime_env has an entry with several lines.")
    return tuple(value)
