"""Exceptions at the reader: classes and fields."""

from __future__ import annotations

import builtins
import sys

import pytest


def test_the_fields_of_an_os_error_arrive(runtime, get):
    @runtime.remote
    def fail():
        raise FileNotFoundError(2, "No such file", "data.csv")

    with pytest.raises(FileNotFoundError) as caught:
        get(fail.remote())
    assert (caught.value.errno, caught.value.filename) == (2, "data.csv")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_a_group_of_exceptions_is_a_group_at_the_reader(runtime, get):
    @runtime.remote
    def fail():
        raise builtins.ExceptionGroup("both", [ValueError("a"), TypeError("b")])

    with pytest.raises(builtins.ExceptionGroup) as caught:
        get(fail.remote())
    assert [str(e) for e in caught.value.exceptions] == ["a", "b"]
    _, rest = caught.value.split(ValueError)
    assert rest is not None
    assert rest.exceptions[0].args == ("b",)


def test_a_class_that_takes_no_mixing_constructor_arrives_as_itself(runtime, get):
    @runtime.remote
    def fail():
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        get(fail.remote())
