"""The search for the part of a value that cannot be pickled: it names the right part with its
path.
"""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from phalanx.util import inspect_serializability

LOCK = threading.Lock()


class Holder:
    def __init__(self, held):
        self.held = held
        self.fine = 1

    def keep(self):
        return self.held


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


def closure(held):
    def function():
        return held

    return function


def default(held):
    def function(value=held):
        return value

    return function


def failures(obj, **options):
    out = io.StringIO()
    fine, found = inspect_serializability(obj, name="it", print_file=out, **options)
    return fine, {(".".join(failure.path)): failure for failure in found}, out.getvalue()


@pytest.mark.parametrize("obj", [1, "text", [1, {"a": (2,)}], closure(3), Holder(4), Holder, len])
def test_what_can_be_pickled(obj):
    assert failures(obj) == (True, {}, "")


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda bad: bad, "it"),
        (lambda bad: [1, bad], "it.[1]"),
        (lambda bad: {"key": (1, bad)}, "it.['key'].[1]"),
        (Holder, "it.held"),
        (Slotted, "it.held"),
        (closure, "it.held"),
        (default, "it.default[0]"),
        (lambda bad: closure(Holder({"deep": bad})), "it.held.held.['deep']"),
        (lambda bad: Holder(bad).keep, "it.__self__.held"),
    ],
)
def test_the_piece_and_its_path(make, path):
    bad = threading.Lock()
    fine, found, text = failures(make(bad))
    assert not fine
    assert list(found) == [path]
    assert found[path].obj is bad
    assert found[path].name == path.split(".")[-1]
    assert "this is the cause: TypeError" in text


def test_every_bad_piece_is_found():
    _, found, _ = failures([threading.Lock(), 1, threading.Lock()])
    assert sorted(found) == ["it.[0]", "it.[2]"]


def test_the_holder_is_told():
    holder = Holder(threading.Lock())
    _, found, _ = failures({"a": holder})
    assert found["it.['a'].held"].parent is holder


def test_a_loop_ends():
    looped: list[Any] = [threading.Lock()]
    looped.append(looped)
    fine, found, _ = failures(looped)
    assert not fine
    assert list(found) == ["it.[0]"]


def test_the_depth_limits_the_search():
    _, found, _ = failures([[[threading.Lock()]]], depth=1)
    assert list(found) == ["it.[0]"]


def test_a_global_that_a_local_function_uses():
    def function():
        return LOCK

    _, found, _ = failures(function)
    assert list(found) == ["it.LOCK"]
