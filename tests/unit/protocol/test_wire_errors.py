"""Errors keep their class, message and fields on the way to another process."""

from __future__ import annotations

import inspect

import pytest

from phalanx import errors
from phalanx.protocol.wire_errors import (
    ERROR_CLASSES,
    WireError,
    code_of,
    from_wire,
    to_wire,
)


def tree(kind):
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


PUBLIC = sorted(
    {one for one in tree(errors.PhalanxError) if one.__module__ == errors.__name__}
    - {one for one in tree(errors.TaskError) if one is not errors.TaskError},
    key=lambda one: one.__name__,
)
"""The public error classes, except those that are derived from TaskError and users' own
exceptions.
"""
EXAMPLES = {
    errors.TaskCancelledError: errors.TaskCancelledError("ab12", "by hand"),
    errors.TaskError: errors.TaskError("f", "Traceback ...", ValueError("x"), 12, "10.0.0.1", "A"),
    errors.RuntimeEnvSetupError: errors.RuntimeEnvSetupError("no such package"),
    errors.BatchFileError: errors.BatchFileError("a tab", "queues.yaml", 7),
}


def example(kind):
    if kind in EXAMPLES:
        return EXAMPLES[kind]
    if issubclass(kind, errors.ObjectLostError):
        return kind("ff00", "it went with its node")
    if issubclass(kind, errors.ActorError):
        return kind("the actor was killed", "a1")
    return kind("it went wrong")


def test_every_public_exception_has_a_code() -> None:
    assert set(PUBLIC) == {
        one for one in ERROR_CLASSES.values() if issubclass(one, errors.PhalanxError)
    }
    assert len(set(ERROR_CLASSES.values())) == len(ERROR_CLASSES)


@pytest.mark.parametrize("kind", [*PUBLIC, ValueError, TypeError], ids=lambda one: one.__name__)
def test_an_exception_is_the_same_at_the_other_end(kind) -> None:
    sent = example(kind)
    got = from_wire(to_wire(sent))
    assert type(got) is kind
    assert str(got) == str(sent)
    fields = {name: value for name, value in vars(sent).items() if name != "cause"}
    assert {name: vars(got)[name] for name in fields} == fields
    assert ERROR_CLASSES[code_of(kind)] is kind


def test_a_class_of_its_own_travels_as_the_nearest_that_all_know() -> None:
    class Mine(errors.QueueUnavailableError):
        pass

    got = from_wire(to_wire(Mine("closed")))
    assert (type(got), str(got)) == (errors.QueueUnavailableError, "closed")
    got = from_wire(to_wire(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")))
    assert type(got) is ValueError


def test_a_defect_of_ours_is_a_system_failure_that_names_it() -> None:
    got = from_wire(to_wire(KeyError("lost")))
    assert (type(got), str(got)) == (errors.SystemFailureError, "KeyError: 'lost'")


def test_an_unknown_code_is_named() -> None:
    got = from_wire(WireError("of_tomorrow", "who knows"))
    assert type(got) is errors.PhalanxError
    assert "who knows" in str(got)
    assert "'of_tomorrow'" in str(got)


def test_a_class_that_has_other_fields_elsewhere_keeps_its_code_and_message() -> None:
    got = from_wire(WireError("object_lost", "gone", {"new_field": "x"}))
    assert (type(got), str(got)) == (errors.PhalanxError, "object_lost: gone")


def test_all_names_of_the_tree_are_looked_at() -> None:
    own = {one for _, one in inspect.getmembers(errors, inspect.isclass)}
    assert {one for one in own if issubclass(one, errors.PhalanxError)} - {
        one for one in own if one.__name__.startswith("_")
    } <= set(PUBLIC)
