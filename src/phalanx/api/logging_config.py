"""The setup of Python's logging in workers."""

from __future__ import annotations

import logging

import msgspec

_FORMATS = {
    "TEXT": "%(asctime)s %(levelname)s %(name)s -- %(message)s",
    "JSON": '{"asctime": "%(asctime)s", "levelname": "%(levelname)s", "message": "%(message)s"}',
}


class LoggingConfig(msgspec.Struct, frozen=True):
    """The argument of `init(logging_config=...)`: encoding "TEXT" or "JSON", and the root level.

    Raises ValueError for any other encoding.

    Example:
        phalanx.init(logging_config=phalanx.LoggingConfig(encoding="JSON", log_level="DEBUG"))
    """

    encoding: str = "TEXT"
    log_level: str = "INFO"

    def __post_init__(self) -> None:
        if self.encoding not in _FORMATS:
            raise ValueError(
                f"Invalid encoding type: {self.encoding}. Valid ones are: {', '.join(_FORMATS)}."
            )

    def apply(self) -> None:
        """Set up this process's root logger by these settings."""
        logging.basicConfig(level=self.log_level, format=_FORMATS[self.encoding], force=True)
