"""Runtime environments as objects instead of plain dicts: RuntimeEnv and RuntimeEnvConfig."""

from __future__ import annotations

from typing import Any


class RuntimeEnv(dict[str, Any]):
    """A dict with the fields of a runtime environment, for the option runtime_env.

    Example:
        env = RuntimeEnv(env_vars={"MODE": "fast"}, working_dir="/srv/app")
        phalanx.init(runtime_env=env)
    """

    def __init__(self, **fields: Any) -> None:
        super().__init__({name: value for name, value in fields.items() if value is not None})


class RuntimeEnvConfig(dict[str, Any]):
    """The `config` of a runtime environment: how its software is installed.

    `setup_timeout_seconds` is the longest time of an installation (-1: no limit). The other fields
    are accepted because Ray has them.
    """

    def __init__(
        self,
        setup_timeout_seconds: int = 600,
        eager_install: bool = True,
        log_files: list[str] | None = None,
    ) -> None:
        super().__init__(
            setup_timeout_seconds=setup_timeout_seconds,
            eager_install=eager_install,
            log_files=log_files,
        )
