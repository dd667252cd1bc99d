"""`ray.logger`: the logger of Ray's libraries."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("ray")


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]  # of whatever stderr is
    """A handler that always writes to the current standard error, because libraries replace that
    stream.
    """

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def configure() -> None:
    """Show the libraries' messages of level INFO and above. A second call changes nothing."""
    if any(isinstance(handler, _Stderr) for handler in logger.handlers):
        return
    handler = _Stderr()
    handler.setFormatter(
        logging.Formatter("%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s")
    )
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
