"""Rows of plain work without an engine. They show what the machine itself can do in the same
run.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import socket
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from phalanx_benchmarks.measure import Effort, rates
from phalanx_benchmarks.row import FLOOR, Api, Row

COPIES = (
    "plain memory copy, a process on every core, to new pages",
    "plain memory copy, a process on every core, to pages already there",
)
"""The floors of both gigabyte rows. There are several floors, because a put may copy with several
cores.
"""
SMALLER = 10 * 1024 * 1024
Sample = Callable[[Api, Effort], list[float]]
MESSAGE = b"x" * 40
BATCH = 100


@functools.cache
def _pages(_: str) -> NDArray[np.int64]:
    """Return memory that is already written, and that the calling process keeps. Each value of `_`
    has its own memory.
    """
    return np.ones(SMALLER, dtype=np.int64)


def _ten_to_new(_: int) -> None:
    for _ in range(10):
        _pages("source").copy()


def _ten_in_place(_: int) -> None:
    for _ in range(10):
        np.copyto(_pages("target"), _pages("source"))


def _everywhere(copy_ten: Callable[[int], None]) -> Sample:
    def sample(api: Api, effort: Effort) -> list[float]:
        with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
            return rates(
                lambda: pool.map(copy_ten, range(10), chunksize=1), per_call=8, effort=effort
            )

    return sample


def _receive(end: socket.socket, size: int) -> None:
    while size:
        got = end.recv(size)
        if not got:
            raise EOFError
        size -= len(got)


def _echo(end: socket.socket, size: int) -> None:
    try:
        while True:
            _receive(end, size)
            end.sendall(b"y" * size)
    except (EOFError, OSError):
        return


def _socket(batch: int) -> Sample:
    def sample(api: Api, effort: Effort) -> list[float]:
        here, there = socket.socketpair()
        echo = multiprocessing.get_context("fork").Process(
            target=_echo, args=(there, batch * len(MESSAGE)), daemon=True
        )
        echo.start()
        there.close()
        message = MESSAGE * batch

        def round_trip() -> None:
            here.sendall(message)
            _receive(here, len(message))

        try:
            return rates(round_trip, per_call=batch, effort=effort)
        finally:
            here.close()
            echo.terminate()
            echo.join()

    return sample


def _row(name: str, sample: Sample, unit: str = "/s") -> Row:
    return Row(name=name, unit=unit, sample=sample, group=FLOOR, session=False, peers=False)


ROWS = (
    _row(COPIES[0], _everywhere(_ten_to_new), "GB/s"),
    _row(COPIES[1], _everywhere(_ten_in_place), "GB/s"),
    _row("two processes, Unix socket, one by one", _socket(1)),
    _row("two processes, Unix socket, 100 messages at once", _socket(BATCH)),
)
