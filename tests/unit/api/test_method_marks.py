"""Type checkers know `@method`. It sets options on the function if any are given."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.actor import ActorClass, method, typed


def read(self: Any, times: int) -> int:
    return times


def test_without_options_it_is_the_function() -> None:
    assert method(read) is read
    assert not hasattr(read, "__phalanx_method__")


@pytest.mark.parametrize("wrong", [(), (3,), (read, read)])
def test_what_it_takes(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="takes a function, or keyword arguments only"):
        method(*wrong)


def test_a_typed_handle_is_the_handle() -> None:
    handle: Any = object()
    assert typed(handle) is handle


def test_a_type_may_name_the_class_alone() -> None:
    assert ActorClass[int] is not None
