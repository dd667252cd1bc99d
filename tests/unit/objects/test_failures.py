"""Exceptions of tasks, from the process that raised them to the one that reads them."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading

import pytest
from tests.present import present

from phalanx.errors import TaskError
from phalanx.objects import failures


class Refuses(Exception):
    """An exception that cannot be pickled, because it has a lock."""

    def __init__(self) -> None:
        super().__init__("refuses")
        self.lock = threading.Lock()


def _raised(*chain: BaseException) -> BaseException:
    """Return the last error of a chain in which each error was raised from the one before it."""
    for earlier, later in itertools.pairwise(chain):
        later.__cause__ = earlier
    return chain[-1]


def _read(error: BaseException) -> BaseException:
    read = failures.load(failures.describe(error, "f", 1))
    assert isinstance(read, TaskError)
    return present(read.cause)


def _names(error: BaseException | None) -> list[str]:
    found = []
    while error is not None:
        found.append(repr(error))
        error = error.__cause__
    return found


@pytest.mark.parametrize(
    ("chain", "seen"),
    [
        ([ValueError("b")], ["ValueError('b')"]),
        # Dask 2026.8.0 gives the reader the error that the program named after `from`.
        ([KeyError("a"), ValueError("b")], ["ValueError('b')", "KeyError('a')"]),
        (
            [OSError(2, "gone"), KeyError("a"), ValueError("b")],
            ["ValueError('b')", "KeyError('a')", "FileNotFoundError(2, 'gone')"],
        ),
        ([Refuses(), ValueError("b")], ["ValueError('b')"]),
        ([KeyError("a"), Refuses(), ValueError("b")], ["ValueError('b')"]),
        ([Refuses(), KeyError("a"), ValueError("b")], ["ValueError('b')", "KeyError('a')"]),
    ],
)
def test_an_error_keeps_the_errors_it_was_raised_from(chain, seen) -> None:
    assert _names(_read(_raised(*chain))) == seen


def test_an_error_that_was_read_and_raised_again_keeps_its_cause() -> None:
    first = failures.load(failures.describe(_raised(KeyError("a"), ValueError("b")), "f", 1))
    assert _names(_read(first)) == ["ValueError('b')", "KeyError('a')"]


def test_a_circle_of_causes_ends() -> None:
    first, second = KeyError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert repr(_read(second).__cause__) == "KeyError('a')"


def test_a_cause_for_which_there_is_no_room_is_left_out(monkeypatch) -> None:
    monkeypatch.setattr(failures, "EXCEPTION_BYTES", 2000)
    error = _raised(KeyError("x" * 1900), ValueError("b"))
    assert _names(_read(error)) == ["ValueError('b')"]


WITH_TBLIB = """
import threading
from tblib import pickling_support
from phalanx.objects import failures

class Refuses(Exception):
    def __init__(self):
        super().__init__("refuses")
        self.lock = threading.Lock()

pickling_support.install()
try:
    try:
        raise Refuses()
    except Refuses as cause:
        raise ValueError("b") from cause
except ValueError as error:
    print(repr(failures.load(failures.describe(error, "f", 1)).cause), repr(error.__cause__))
"""


def test_a_library_that_pickles_causes_does_not_lose_the_error() -> None:
    """tblib makes pickle keep the causes of errors, and Dask installs it."""
    pytest.importorskip("tblib")
    words = [sys.executable, "-c", WITH_TBLIB]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert said.stdout == "ValueError('b') Refuses('refuses')\n", said.stderr
