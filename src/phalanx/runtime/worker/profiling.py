"""Profiles of a worker's calls, with a file for each call, if the worker's runtime environment asks
for them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from phalanx.worker.context import TaskContext

DIRECTORY = "phalanx-profiles"
"""The directory of the files, below the program's directory, if the environment names no other."""
_LONGEST = 80
"""The number of characters of a function's name that are part of a file's name."""
_counter = itertools.count()


class Profiler:
    """A profiling tool, and the directory of its files."""

    def __init__(self, tool: str, directory: str) -> None:
        self._start, self._suffix = _TOOLS[tool]
        self._directory = os.path.abspath(directory)

    def around(self, function: Callable[..., Any], context: TaskContext) -> Callable[..., Any]:
        """Return a function that runs the given one and profiles it.

        An async function is returned unchanged: other calls run between its steps, and would be
        part of its profile.
        """
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            return function
        whole = functools.partial(self._profiled, context)

        if inspect.isgeneratorfunction(function):

            def items(*args: Any, **kwargs: Any) -> Iterator[Any]:
                with whole():
                    yield from function(*args, **kwargs)

            return items

        def call(*args: Any, **kwargs: Any) -> Any:
            with whole():
                return function(*args, **kwargs)

        return call

    @contextlib.contextmanager
    def _profiled(self, context: TaskContext) -> Iterator[None]:
        os.makedirs(self._directory, exist_ok=True)
        name = re.sub(r"[^\w.-]+", "_", context.name)[:_LONGEST]
        place = f"{os.uname().nodename}-{os.getpid()}-{next(_counter)}"
        path = os.path.join(self._directory, f"{name}-{place}{self._suffix}")
        with self._start(path):
            yield
        sys.stderr.write(f"profile of {context.name}: {path}\n")


@functools.cache
def profiler() -> Profiler | None:
    """Return the profiler of this worker's runtime environment; None if it has none."""
    wanted = json.loads(os.environ.get("PHALANX_RUNTIME_ENV", "{}")).get("profile")
    if not wanted:
        return None
    if isinstance(wanted, str):
        wanted = {"tool": wanted}
    return Profiler(wanted["tool"], wanted.get("directory", DIRECTORY))


# ---- the tools ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _cprofile(path: str) -> Iterator[None]:
    import cProfile

    profile = cProfile.Profile()
    try:
        profile.enable()
    except ValueError:  # another thread of this process is being profiled
        yield
        return
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(path)


def _viztracer(path: str) -> AbstractContextManager[Any]:
    viztracer = _needed("viztracer")
    tracer: AbstractContextManager[Any] = viztracer.VizTracer(output_file=path, verbose=0)
    return tracer


def _memray(path: str) -> AbstractContextManager[Any]:
    tracker: AbstractContextManager[Any] = _needed("memray").Tracker(path)
    return tracker


@contextlib.contextmanager
def _torch(path: str) -> Iterator[None]:
    profile = _needed("torch").profiler.profile()
    with profile:
        yield
    profile.export_chrome_trace(path)


def _needed(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RuntimeError(
            f"runtime_env asks for profiles with {module}, which cannot be imported on this node "
            f"({error}): install it there (pip install {module}), or use 'cprofile', which "
            "comes with Python."
        ) from error


_TOOLS: dict[str, tuple[Callable[[str], AbstractContextManager[Any]], str]] = {
    "cprofile": (_cprofile, ".prof"),
    "viztracer": (_viztracer, ".json"),
    "memray": (_memray, ".bin"),
    "torch": (_torch, ".trace.json"),
}
