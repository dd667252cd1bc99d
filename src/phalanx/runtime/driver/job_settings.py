"""The settings that new work inherits from its job: namespace, queue, priority and environment."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec

from phalanx.model.environments import written_environment
from phalanx.owner.requests import Requests
from phalanx.protocol.requests.node import DefineEnvironment
from phalanx.runtime.environments.place import ENVIRONMENT
from phalanx.runtime.environments.reading import environment_of


class JobSettings:
    """The settings of this process's job."""

    def __init__(
        self, requests: Requests, namespace: str = "", queue: str = "", priority: int = 0
    ) -> None:
        self._requests = requests
        self.namespace = namespace
        self.queue = queue
        """The queue of this job's work, unless the options of the work give another queue."""
        self.priority = priority
        self.environment: dict[str, Any] = {}
        """The runtime environment that new work inherits."""
        self._known: set[bytes] = set()

    def set_environment(self, environment: Mapping[str, Any]) -> None:
        """Set the runtime environment that new work inherits."""
        self.environment = with_absolute_paths(environment)

    def environment_key(self, environment: dict[str, Any]) -> bytes:
        """Define a runtime environment at the node. Returns the short name that the node gives
        it.
        """
        text = json.dumps(environment, sort_keys=True)
        key = hashlib.sha256(text.encode()).digest()[:12]
        if key not in self._known:
            variables = dict(environment.get("env_vars") or {})
            variables["PHALANX_RUNTIME_ENV"] = text
            if (software := environment_of(environment)) is not None:
                variables[ENVIRONMENT] = msgspec.json.encode(software).decode()
            self._requests.notify(DefineEnvironment(key, variables))
            self._known.add(key)
        return key


def with_absolute_paths(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return a runtime environment whose directories have the same meaning wherever they are read.

    Workers read the directories after they have changed into one of them. The files that pip and uv
    name are read here. Raises ValueError for a path that does not exist.
    """
    found = dict(environment)
    if (software := environment_of(found)) is not None:
        found |= written_environment(software)
    if found.get("working_dir"):
        found["working_dir"] = directory = _absolute(found["working_dir"])
        if not os.path.isdir(directory):
            raise ValueError(
                f"working_dir of a runtime environment: {environment['working_dir']!r} is not a "
                "valid path: it names a directory of this machine."
            )
    if found.get("py_modules"):
        found["py_modules"] = [_absolute(_place_of(one)) for one in found["py_modules"]]
        for path in found["py_modules"]:
            if not os.path.exists(path):
                raise ValueError(
                    f"py_modules of a runtime environment: {path!r} is not a valid path: it names "
                    "a directory, a .py file, a wheel or a zip file of this machine."
                )
    return found


def _place_of(module: Any) -> Any:
    """Return the path of a module that is given as an object. A path is returned as it is."""
    if not isinstance(module, ModuleType):
        return module
    return next(iter(getattr(module, "__path__", ())), None) or module.__file__


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.abspath(os.path.expanduser(path))
