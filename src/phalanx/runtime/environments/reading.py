"""Reads the environment that a runtime environment names, and the files on this machine to which it
refers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import msgspec

from phalanx.model.environments import (
    DESCRIPTION,
    VARIABLE,
    Environment,
    given_tool,
    read_environment,
    reference_in,
)
from phalanx.runtime.environments.place import environments_directory


def environment_of(runtime_env: Mapping[str, Any]) -> Environment | None:
    """Return the environment that a runtime environment names, with the texts of the files to which
    its paths lead. Return None if the runtime environment names none.

    Raises ValueError and TypeError that name the field.
    """
    try:
        if key := reference_in(runtime_env):
            return _prepared_here(key)
        return read_environment(runtime_env, _text_of)
    except OSError as error:
        tool = given_tool(runtime_env)
        raise ValueError(f"runtime_env: {tool}: {error.filename}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"runtime_env: a file is not text in UTF-8: {error}.") from None


def path_of(module: Any) -> str:
    """Return the path of an entry of `py_modules`: a path, or the module itself."""
    if not isinstance(module, ModuleType):
        return str(module)
    return str(next(iter(getattr(module, "__path__", ())), None) or module.__file__)


def _prepared_here(key: str) -> Environment:
    """Return an environment that was prepared on this machine."""
    directory = os.environ.get(VARIABLE) or environments_directory()
    with open(os.path.join(directory, key, DESCRIPTION), "rb") as file:
        return msgspec.json.decode(file.read(), type=Environment)


def _text_of(path: str) -> str:
    with open(os.path.expanduser(path), encoding="utf-8") as file:
        return file.read()
