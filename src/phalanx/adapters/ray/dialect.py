"""Ray's dialect, which answers the core's questions about a program that runs under Ray's names."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from phalanx.adapters.ray.tokens import needed_token
from phalanx.runtime.daemons.daemon_files import OF_CLIENT
from phalanx.runtime.daemons.logins import known_port

ADDRESS = "RAY_ADDRESS"
PREFIX = "RAY_"
"""The prefix of Ray's settings in the environment."""
_CLIENT = "ray://"
"""The prefix of addresses of Ray's client servers."""
_CLIENTS_PORT, _HEADS_PORT = 10001, 6379
"""The ports of Ray's client server, and of the heads that `ray start` starts."""
_OVERRIDES = {"resources": "RAY_OVERRIDE_RESOURCES", "labels": "RAY_OVERRIDE_LABELS"}


class RaysDialect:
    """Ray's rules for programs, as a `phalanx.runtime.engine.dialect.Dialect`. Heavy modules are
    imported on first use.
    """

    name = "ray"
    hidden_methods = frozenset({"gang"})
    not_running = "Ray has not been started yet. Call ray.init() first."
    left_out_labels = ("kubernetes.io/",)
    backend_of_joblib = "ray"
    limits_gpu_memory = False  # in Ray a share of a GPU only counts

    def installation(self) -> Callable[[], None]:
        """Return the function that installs Ray's names in a worker, with the libraries that this
        process uses.
        """
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
        """Return this process's environment variables. The variable `RAY_NAME` has the setting
        NAME.
        """
        return os.environ

    def settings_of(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables whose names begin with RAY_."""
        return {name: value for name, value in variables.items() if name.startswith(PREFIX)}

    def max_retries(self) -> int | None:
        """Return the value of RAY_TASK_MAX_RETRIES if it is a number."""
        text = os.environ.get("RAY_TASK_MAX_RETRIES", "")
        return int(text) if text.removeprefix("-").isdecimal() else None

    def without_client(self, address: str | None) -> str | None:
        """Return the address to use in place of the address of a Ray client server. If the server
        is on this machine, the result is "auto", because a driver beside a node needs no server.
        Otherwise the result names the cluster on which the program's driver will run, with a head's
        port in place of Ray's port for clients.
        """
        named = self.address() if address in (None, "", "auto") else address
        if named is None or not named.startswith(_CLIENT):
            return address
        host = urlsplit(named).hostname or ""
        if host == "localhost" or host in (socket.gethostname(), "::1") or host.startswith("127."):
            return "auto"
        where = named.removeprefix(_CLIENT).rstrip("/")
        port = urlsplit(named).port
        if port in (None, _CLIENTS_PORT):
            shown = f"[{host}]" if ":" in host else host
            where = known_port(shown) or f"{shown}:{_HEADS_PORT}"
        return f"{OF_CLIENT}{where}"

    def person_token(self) -> str:
        """Return the token in Ray's variables; "" without a token. Raises AuthenticationError."""
        return needed_token()


DIALECT = RaysDialect()
