"""The settings that new work inherits from its job: namespace, queue, priority and environment."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.errors import RuntimeEnvSetupError
from phalanx.model.environments import (
    ENVIRONMENT,
    IMAGE,
    TOOL_LABEL,
    TOOLS_FOR_WORKERS,
    Environment,
    given_tool,
    written_environment,
)
from phalanx.model.packages import VARIABLE as PACKAGES
from phalanx.model.packages import read_uri, uris_in, written_uris
from phalanx.owner.requests import Requests
from phalanx.protocol.requests.node import DefineEnvironment
from phalanx.protocol.requests.packages import PutPackage
from phalanx.runtime.environments.reading import environment_of, path_of

if TYPE_CHECKING:
    from phalanx.model.rows.cluster import NodeInfo
    from phalanx.runtime.environments.uploading import Uploads


class JobSettings:
    """The settings of this process's job."""

    def __init__(
        self, requests: Requests, namespace: str = "", queue: str = "", priority: int = 0
    ) -> None:
        self._requests = requests
        self.ask_head: Callable[[PutPackage], int] | None = None
        """Sends a part of a package to the head. None in a runtime of one program on one machine,
        whose workers use directories and modules in place.
        """
        self.list_nodes: Callable[[], Sequence[NodeInfo]] = tuple
        """Returns the nodes of the cluster."""
        self.namespace = namespace
        self.queue = queue
        """The queue of this job's work, unless the options of the work give another queue."""
        self.priority = priority
        self.environment: dict[str, Any] = {}
        """The runtime environment that new work inherits."""
        self._known: set[bytes] = set()
        self._images: set[bytes] = set()
        """The keys of the known environments that have an image."""
        self._uploads: Uploads | None = None

    def set_environment(self, environment: Mapping[str, Any]) -> None:
        """Set the runtime environment that new work inherits. Raises ValueError for directories and
        modules that cannot be used.
        """
        self.environment = self.portable(environment)

    def portable(self, environment: Mapping[str, Any]) -> dict[str, Any]:
        """Return a runtime environment that means the same on all nodes: its files are read, and
        its directories and modules are uploaded. Raises ValueError.
        """
        found = with_absolute_paths(environment)
        if self.ask_head is not None:
            return self._uploaded(found, self.ask_head)
        if _is_zip(found.get("working_dir") or ""):
            raise ValueError(
                f"working_dir of a runtime environment: {found['working_dir']!r} is a zip file, "
                "which only clusters take. The runtime of a program takes a directory."
            )
        # A program that is a job finds the job's packages in its own directory.
        if read_uri(found.get("working_dir")) is not None:
            del found["working_dir"]
        if modules := found.get("py_modules"):
            found["py_modules"] = [one for one in modules if read_uri(one) is None]
        return found

    def _uploaded(
        self, environment: dict[str, Any], ask: Callable[[PutPackage], int]
    ) -> dict[str, Any]:
        if not (environment.get("working_dir") or environment.get("py_modules")):
            return environment
        if self._uploads is None:
            # Imported here because few programs upload, and this imports the modules for archives.
            from phalanx.runtime.environments.uploading import Uploads

            self._uploads = Uploads(ask, _say)
        return self._uploads.uploaded(environment)

    def environment_key(self, environment: dict[str, Any]) -> bytes:
        """Define a runtime environment at the node. Returns its key: a hash of its contents, by
        which work names it.
        """
        text = json.dumps(environment, sort_keys=True)
        key = hashlib.sha256(text.encode()).digest()[:12]
        if key not in self._known:
            variables = dict(environment.get("env_vars") or {})
            variables["PHALANX_RUNTIME_ENV"] = text
            if (software := environment_of(environment)) is not None:
                variables[ENVIRONMENT] = msgspec.json.encode(software).decode()
                self._note_image(key, software)
            if uris := uris_in(environment):
                variables[PACKAGES] = written_uris(uris)
            self._requests.notify(DefineEnvironment(key, variables))
            self._known.add(key)
        return key

    def has_image(self, key: bytes) -> bool:
        """Whether the runtime environment with this key has an image."""
        return key in self._images

    def _note_image(self, key: bytes, software: Environment) -> None:
        """Note that work in this environment runs in an image, if the environment has one. Raises
        RuntimeEnvSetupError if no node has a tool that can run images.
        """
        if software.tool != IMAGE:
            return
        tools = {node.labels.get(TOOL_LABEL) for node in self.list_nodes()}
        if not tools.intersection(TOOLS_FOR_WORKERS):
            raise RuntimeEnvSetupError(
                f"no node can run tasks and actors in the image {software.named}: none has podman, "
                "apptainer or enroot (`phalanx nodes` shows a node's tool as the label "
                f"{TOOL_LABEL})."
            )
        self._images.add(key)


def _say(text: str) -> None:
    print(f"phalanx: {text}", file=sys.stderr)


def with_absolute_paths(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return a runtime environment whose paths have the same meaning wherever they are read.

    Workers read the paths after they have entered their working directory. The files that pip and
    uv name are read here. Raises ValueError for a path that does not exist.
    """
    found = dict(environment)
    if (software := environment_of(found)) is not None:
        del found[given_tool(found)]  # image_uri is written as container
        found |= written_environment(software)
    if found.get("working_dir") and read_uri(found["working_dir"]) is None:
        found["working_dir"] = directory = _absolute(found["working_dir"])
        if not (os.path.isdir(directory) or _is_zip(directory)):
            raise ValueError(
                f"working_dir of a runtime environment: {environment['working_dir']!r} is not a "
                "valid path: it names a directory or a zip file of this machine."
            )
    if found.get("py_modules"):
        found["py_modules"] = [_module(path_of(one)) for one in found["py_modules"]]
    return found


def _is_zip(path: str) -> bool:
    return path.endswith(".zip") and os.path.isfile(path)


def _module(path: str) -> str:
    if read_uri(path) is not None:
        return path
    found = _absolute(path)
    if not os.path.exists(found):
        raise ValueError(
            f"py_modules of a runtime environment: {found!r} is not a valid path: it names a "
            "directory, a .py file, a wheel or a zip file of this machine."
        )
    return found


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.path.expanduser(path))
