"""CPython's own tests of `multiprocessing.Pool`, run on Phalanx's pool.

The tests are a part of the interpreter.
"""

from __future__ import annotations

import multiprocessing
import unittest
from typing import Any

from test import _test_multiprocessing as theirs

import phalanx
from phalanx.util.multiprocessing import Pool

_standard: Any = None


class _OurPool(theirs.ProcessesMixin):  # type: ignore[misc]  # untyped
    TYPE = "processes"

    @staticmethod
    def Pool(*args: Any, **kwargs: Any) -> Pool:
        return Pool(*args, **kwargs)


def setUpModule() -> None:
    """Replace the class in the standard library, where some of the tests look for it."""
    global _standard
    phalanx.init("local", num_cpus=4)
    _standard, multiprocessing.Pool = multiprocessing.Pool, Pool  # type: ignore[assignment,misc]


def tearDownModule() -> None:
    multiprocessing.Pool = _standard
    phalanx.shutdown()


# The classes are statements, because their methods travel to processes by the classes' names.
class PhalanxPool(theirs._TestPool, _OurPool, unittest.TestCase): ...  # type: ignore[misc]


class PhalanxPoolErrors(theirs._TestPoolWorkerErrors, _OurPool, unittest.TestCase): ...  # type: ignore[misc]


class PhalanxPoolLifetime(theirs._TestPoolWorkerLifetime, _OurPool, unittest.TestCase): ...  # type: ignore[misc]
