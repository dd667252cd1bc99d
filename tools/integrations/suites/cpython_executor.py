"""CPython's own tests of executors, run on Phalanx's executor.

The tests of all executors run first, then those of process pools. The tests are a part of the
interpreter. Before Python 3.12, they are one module.
"""

from __future__ import annotations

import importlib
import unittest
from collections.abc import Iterator
from typing import Any

import phalanx
from phalanx.util import Executor

PACKAGE = "test.test_concurrent_futures"
OF_ALL = ("ExecutorTest", "WaitTests", "AsCompletedTests", "ExecutorShutdownTest")
OF_POOLS = ("InitializerMixin", "ExecutorDeadlockTest", "ProcessPoolExecutorTest")


def modules() -> Iterator[Any]:
    """Yield the modules with the tests."""
    whole = importlib.import_module(PACKAGE)
    if not hasattr(whole, "__path__"):
        yield whole
        return
    of_all = ("executor", "test_wait", "test_as_completed", "test_shutdown")
    for part in ("util", *of_all, "test_init", "test_deadlock", "test_process_pool"):
        yield importlib.import_module(f"{PACKAGE}.{part}")


THEIRS = {name: found for module in modules() for name, found in vars(module).items()}


def setUpModule() -> None:
    phalanx.init("local", num_cpus=5)


def tearDownModule() -> None:
    phalanx.shutdown()


def _cases(names: tuple[str, ...], mixin: type, more: dict[str, Any]) -> None:
    for name in names:
        theirs = THEIRS[name]
        bases = (theirs, unittest.TestCase) if issubclass(theirs, mixin) else None
        body = {"executor_type": Executor, **more, "__module__": __name__}
        case = type(f"Phalanx{name}", bases or (theirs, mixin, unittest.TestCase), body)
        globals()[case.__name__] = case


_cases(OF_ALL, THEIRS["ExecutorMixin"], {})
_cases(OF_POOLS, THEIRS["ExecutorMixin"], {"ctx": "spawn"})
