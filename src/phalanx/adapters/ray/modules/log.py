"""`ray.logger`: where Ray's libraries say what they do."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("ray")


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]  # of whatever stderr is
    """Writes to what standard error is at that time: libraries put other streams in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        self.stream = sys.stderr
        super().emit(record)


def configure() -> None:
    """Have the libraries' messages shown, from INFO on; a second call changes nothing."""
    if any(isinstance(handler, _Stderr) for handler in logger.handlers):
        return
    handler = _Stderr()
    handler.setFormatter(
        logging.Formatter("%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s")
    )
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
