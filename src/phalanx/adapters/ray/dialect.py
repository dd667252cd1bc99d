"""Ray's dialect, which answers the core's questions about a program that runs under Ray's names."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

ADDRESS = "RAY_ADDRESS"
PREFIX = "RAY_"
"""The prefix of Ray's settings in the environment."""
_CLIENT = "ray://"
"""The prefix of addresses of Ray's client servers."""
_OVERRIDES = {"resources": "RAY_OVERRIDE_RESOURCES", "labels": "RAY_OVERRIDE_LABELS"}


class RaysDialect:
    """Ray's rules for programs, as a `phalanx.runtime.engine.dialect.Dialect`. Heavy modules are
    imported on first use.
    """

    name = "ray"
    hidden_methods = frozenset({"gang"})
    not_running = "Ray has not been started yet. Call ray.init() first."
    labels_of_system = ("kubernetes.io/",)
    backend_of_joblib = "ray"
    limits_gpu_memory = False  # in Ray a share of a GPU only counts

    def installation(self) -> Callable[[], None]:
        """Return the function that gives a worker the same names, with the same libraries."""
        from phalanx.adapters.ray.alias import installation

        return installation()

    def preloaded(self) -> tuple[str, ...]:
        """Return the modules of Ray's libraries to preload, if the program uses them."""
        from phalanx.adapters.ray.alias import preloaded

        return preloaded()

    def global_worker(self) -> Any:
        """Return the object that programs find as `ray._private.worker.global_worker`."""
        return import_module("phalanx.adapters.ray.modules.worker").global_worker

    def address(self) -> str | None:
        """Return the value of the variable RAY_ADDRESS."""
        return os.environ.get(ADDRESS)

    def overrides(self, what: str) -> dict[str, Any]:
        """Return the mapping in the JSON of RAY_OVERRIDE_RESOURCES or RAY_OVERRIDE_LABELS. Raises
        ValueError for anything else.
        """
        variable = _OVERRIDES[what]
        text = os.environ.get(variable)
        try:
            given = json.loads(text or "{}")
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise ValueError(f"{variable} must be a mapping in JSON, not {text!r}.")
        return given

    def settings(self) -> Mapping[str, str]:
        """Return the environment variables. A variable `RAY_NAME` is the setting NAME."""
        return os.environ

    def settings_of(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables whose names begin with RAY_."""
        return {name: value for name, value in variables.items() if name.startswith(PREFIX)}

    def max_retries(self) -> int | None:
        """Return the value of RAY_TASK_MAX_RETRIES if it is a number."""
        text = os.environ.get("RAY_TASK_MAX_RETRIES", "")
        return int(text) if text.lstrip("-").isdigit() else None

    def without_client(self, address: str | None) -> str | None:
        """Replace the address of a Ray client server on this machine by the address of the cluster
        on this machine. A driver next to a node needs no client server. Raises ConnectionError for
        a server on another machine.
        """
        named = self.address() if address in (None, "", "auto") else address
        if named is None or not named.startswith(_CLIENT):
            return address
        host = urlsplit(named).hostname or ""
        if host == "localhost" or host in (socket.gethostname(), "::1") or host.startswith("127."):
            return "auto"
        raise ConnectionError(
            f"{named} is a client server on another machine, and Phalanx has no client servers: a "
            "driver needs a node of its cluster on its own machine. Run `phalanx start --address "
            "HEAD:PORT` here, then "
            "the program without an address."
        )


DIALECT = RaysDialect()
