"""RuntimeEnv: a runtime environment as an object, where programs do not write a dict."""

from __future__ import annotations

from typing import Any


class RuntimeEnv(dict[str, Any]):
    """A dict of a runtime environment's fields, as the option runtime_env takes it."""

    def __init__(self, **fields: Any) -> None:
        super().__init__({name: value for name, value in fields.items() if value is not None})
