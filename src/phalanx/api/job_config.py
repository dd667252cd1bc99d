"""The settings for all work of a driver: Ray's `JobConfig`, an argument of `init`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""The environment variable of Ray with the runtime environment and the metadata of a submitted job,
as JSON. The processes of the job have this variable.
"""
_LIFETIMES = ("detached", "non_detached")


class JobConfig:
    """The namespace, the runtime environment and the actors' lifetime of a driver's work.

    Example:
        config = JobConfig(ray_namespace="mine", default_actor_lifetime="detached")
        phalanx.init(job_config=config)
    """

    def __init__(
        self,
        jvm_options: Sequence[str] | None = None,
        code_search_path: Sequence[str] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        _client_job: bool = False,
        metadata: Mapping[str, Any] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
    ) -> None:
        """Set up the settings. `default_actor_lifetime` is "detached" or "non_detached".

        That lifetime applies to actors whose options do not give a `lifetime`. Java's options and
        search paths have no effect. Raises ValueError for any other lifetime.
        """
        self.jvm_options = list(jvm_options or ())
        self.code_search_path = list(code_search_path or ())
        self.metadata = dict(metadata or {})
        self.runtime_env: dict[str, Any] | None = None
        self.ray_namespace = ray_namespace
        self.set_runtime_env(runtime_env)
        self.set_default_actor_lifetime(default_actor_lifetime)

    def set_runtime_env(self, runtime_env: Mapping[str, Any] | None) -> None:
        """Set the runtime environment of the driver's tasks and actors."""
        self.runtime_env = None if runtime_env is None else dict(runtime_env)

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """Set the lifetime of actors whose options give none. Raises ValueError for an unknown
        lifetime.

        "non_detached" actors live as long as their handles, "detached" ones until they are killed.
        """
        if default_actor_lifetime not in _LIFETIMES:
            raise ValueError(
                "Default actor lifetime must be one of `detached`, `non_detached`, "
                f"got {default_actor_lifetime!r}."
            )
        self.default_actor_lifetime = default_actor_lifetime


_default = ["non_detached"]
"""The lifetime in this process of actors whose options give none."""


def set_default_lifetime(lifetime: str) -> None:
    """Set the lifetime of later actors whose options give none, to "detached" or "non_detached"."""
    _default[0] = lifetime


def with_lifetime(options: dict[str, Any]) -> dict[str, Any]:
    """Return an actor's options, with this job's default lifetime added if it differs from Ray's
    default.
    """
    if _default[0] == "non_detached" or options.get("lifetime") is not None:
        return options
    return {**options, "lifetime": _default[0]}
