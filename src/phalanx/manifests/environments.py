"""The field `runtimeEnv` of a job's spec: software that is prepared before its members begin."""

from __future__ import annotations

from phalanx.manifests.fields import Fields
from phalanx.model.environments import TOOLS, Environment, read_environment

_FIELDS = (*TOOLS, "config")


def read_runtime_env(at: Fields) -> Environment | None:
    """Read the field `runtimeEnv`. Unlike in a program, none of its values may be the path of a
    file.
    """
    value = at.raw("runtimeEnv")
    if value is None:
        return None
    try:
        if not isinstance(value, dict):
            raise ValueError("write a mapping like {pip: [numpy]}")
        if unknown := [name for name in value if name not in _FIELDS]:
            raise ValueError(f"{unknown[0]!r} is not among {', '.join(_FIELDS)}")
        return read_environment(value, _no_file)
    except (ValueError, TypeError) as error:
        at.error("runtimeEnv", "runtime_env_invalid", f"runtimeEnv: {error}")
        return None


def _no_file(path: str) -> str:
    raise ValueError(
        f"{path!r} is a path, and a manifest names no files: write the packages as a list, or the "
        "texts of the files under `files`"
    )
