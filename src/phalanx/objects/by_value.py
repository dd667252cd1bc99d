"""Pickling of functions and classes by value: cloudpickle, corrected in two points.

cloudpickle 3.1.3 gives all code the file name `<dynamic-code>`, so tracebacks and stacks would show
no line. Every version drops the slots of a class, so objects of the reader's class would have a
`__dict__`, which the sender's objects lack.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from enum import Enum
from pickle import PickleBuffer
from types import CodeType, MemberDescriptorType
from typing import Any

import cloudpickle

_SLOTS = "__slots__"


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, changed so that code keeps its file name and classes keep their
    slots.
    """

    def reducer_override(self, value: Any) -> Any:
        """Return `value` in the reduced form that pickle defines. NotImplemented lets pickle choose
        the form.
        """
        if type(value) is CodeType:
            make, arguments = cloudpickle.Pickler.dispatch_table[CodeType](value)
            return _code_of_file, (value.co_filename, make, arguments)
        reduced = super().reducer_override(value)
        if isinstance(reduced, tuple) and isinstance(value, type) and _SLOTS in vars(value):
            return _with_slots(value, reduced)
        return reduced


def dumps(value: Any, buffer_callback: Callable[[PickleBuffer], Any] | None = None) -> bytes:
    """Pickle `value` with protocol 5. Raises the errors of pickle and of the user's classes."""
    file = io.BytesIO()
    Pickler(file, protocol=5, buffer_callback=buffer_callback).dump(value)
    return file.getvalue()


def _code_of_file(file: str, make: Callable[..., CodeType], arguments: Iterable[Any]) -> CodeType:
    return make(*arguments).replace(co_filename=file)


def _with_slots(cls: type, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `reduced`, changed so that it creates the class with its slots. Python cannot add
    slots to a class later.
    """
    make, arguments, (attributes, more), *rest = reduced
    if issubclass(cls, Enum):
        return reduced
    kept = {k: v for k, v in attributes.items() if k != _SLOTS and not _is_slot(cls, v)}
    return _slotted, (vars(cls)[_SLOTS], make, arguments), (kept, more), *rest


def _is_slot(cls: type, value: Any) -> bool:
    return isinstance(value, MemberDescriptorType) and value.__objclass__ is cls


def _slotted(slots: Any, make: Callable[..., type], arguments: tuple[Any, ...]) -> type:
    """Return the class that `make` creates, with these slots. If no slots can be added, as in a
    NamedTuple, only set the attribute `__slots__` of the class.
    """
    # The one dict among the arguments is the namespace in which the class is made.
    with_slots = tuple(
        {**argument, _SLOTS: slots} if type(argument) is dict else argument
        for argument in arguments
    )
    try:
        return make(*with_slots)
    except (AttributeError, TypeError):  # no slots can be added to NamedTuple and msgspec structs
        cls = make(*arguments)
        setattr(cls, _SLOTS, slots)
        return cls
