"""Text of the operating system that is no UTF-8, as text that every program can write down.

Python reads such a byte of an argument, a variable or a path as half a surrogate, which no encoder
takes. Here each stands for one of the last 128 characters of Unicode, which are for private use and
in no font. So the byte travels through messages, stores and JSON, and becomes a byte again where
the text is given to the operating system.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")

_FIRST = 0x10FF80
"""Stands for the byte 0x80."""
_SHIFT = _FIRST - 0xDC80
_HALF = re.compile("[\udc80-\udcff]")
_STANDS_FOR_BYTE = re.compile("[\U0010ff80-\U0010ffff]")


def writable(text: str) -> str:
    """Text of the operating system, with characters that stand for bytes which are no UTF-8."""
    if text.isascii():
        return text
    return _HALF.sub(lambda found: chr(ord(found.group()) + _SHIFT), text)


def native(text: str) -> str:
    """The text of the operating system again, for `os.fsencode` and what uses it."""
    if text.isascii():
        return text
    return _STANDS_FOR_BYTE.sub(lambda found: chr(ord(found.group()) - _SHIFT), text)


def byte_shown(character: str) -> str:
    """For people: the byte that a character stands for, as `\\xff`; empty for any other one."""
    text = native(character)
    return f"\\x{ord(text) - 0xDC00:02x}" if _HALF.match(text) else ""


def all_writable(value: T) -> T:
    """A message or a record of which each text is `writable`, as deep as it goes."""
    return _with_texts(value, writable)


def all_native(value: T) -> T:
    """The same with each text `native`."""
    return _with_texts(value, native)


def _with_texts(value: T, change: Callable[[str], str]) -> T:
    made: object = value
    if isinstance(value, str):
        made = change(value)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        made = type(value)(*(_with_texts(one, change) for one in value))
    elif isinstance(value, list | tuple | set | frozenset):
        made = type(value)(_with_texts(one, change) for one in value)
    elif isinstance(value, dict):
        made = {_with_texts(k, change): _with_texts(one, change) for k, one in value.items()}
    elif isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        texts = {name: _with_texts(getattr(value, name), change) for name in fields}
        made = msgspec.structs.replace(value, **texts)
    return made  # type: ignore[return-value]


def encoded(encode: Callable[[T], bytes], value: T) -> bytes:
    """What `encode` makes of a value, in which bytes may stand that are no UTF-8. They are seldom,
    so nobody looks for them before an encoder refuses them."""
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(all_writable(value))
