"""Questions to a Ray cluster's scheduler from who is no program of it, as the command line."""

from __future__ import annotations

import logging
from typing import Any

import ray

from phalanx.engines.ray.scheduler.client import SchedulerClient

STARTS = ("batch.apply", "batch.create_queue")
"""Questions that start a scheduler where there is none."""
START_S = 60.0
"""How much longer an answer may take while one is started."""


def ask_cluster(address: str, method: str, timeout_s: float, **args: Any) -> Any:
    """The answer to one question. `address`: `ray:auto`, `ray:HOST:PORT` or `ray://HOST:PORT`.

    Connects this process to Ray with the first question. Raises ConnectionError when there is no
    such cluster or no scheduler on it, GetTimeoutError, and the error that is answered.
    """
    if not ray.is_initialized():
        where = address if address.startswith("ray://") else address.removeprefix("ray:")
        try:
            ray.init(where or "auto", log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:
            raise ConnectionError(f"The Ray cluster at {address} is not reached: {error}") from None
    starts = method in STARTS
    client = SchedulerClient.connect(start=starts)
    return client.ask(method, timeout_s=timeout_s + START_S * starts, **args)
