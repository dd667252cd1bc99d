"""Finds the tool of this machine that runs containers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from phalanx.runtime.containers.tools import DOCKER, TOOLS

CHOSEN = "PHALANX_CONTAINER_TOOL"
"""The environment variable of the node with the name or the path of the tool. "none" turns images
off.
"""
_USUAL = "/usr/local/bin:/usr/bin:/bin"
_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
_INITS = ("/usr/libexec/podman/catatonit", "/usr/libexec/catatonit/catatonit")


class Tool(NamedTuple):
    """A tool that runs containers."""

    name: str
    path: str


def find_tool(variables: Mapping[str, str] = os.environ) -> Tool | None:
    """Return the tool that runs containers here; None if there is no such tool. Nothing is
    started.
    """
    chosen = variables.get(CHOSEN, "")
    names = (chosen,) if chosen else TOOLS
    for name in names:
        path = _which(name, variables)
        plain = os.path.basename(name)
        if path is not None and plain in TOOLS and (plain != DOCKER or _has_daemon(variables)):
            return Tool(plain, path)
    return None


def _which(name: str, variables: Mapping[str, str]) -> str | None:
    """Return the path of a program; None if the program is not here. `shutil.which` is not used,
    because its module takes long to import.
    """
    if os.sep in name:
        return name if _is_program(name) else None
    # Behind the PATH are the usual directories, because the PATH of a job may be for its image.
    directories = f"{variables.get('PATH', os.defpath)}:{_USUAL}".split(":")
    paths = (os.path.join(directory, name) for directory in directories if directory)
    return next(filter(_is_program, paths), None)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _has_daemon(variables: Mapping[str, str]) -> bool:
    """Whether docker has a daemon that this account may use."""
    if variables.get("DOCKER_HOST"):
        return True
    return any(os.access(one, os.R_OK | os.W_OK) for one in _SOCKETS)


def find_init(variables: Mapping[str, str] = os.environ) -> str:
    """Return the path of a program that can be the first process of a container; "" for none."""
    return _which("catatonit", variables) or next(filter(os.path.exists, _INITS), "")
