"""Represents text of the operating system that is not UTF-8 by text that every program can encode.

Python reads an undecodable byte of an argument, a variable or a path as half a surrogate, which no
encoder accepts. Here each such byte is written as one of the last 128 characters of Unicode, which
are for private use and in no font. So the byte passes through messages, stores and JSON, and
becomes a byte again where the text is given to the operating system.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_FIRST = 0x10FF80
"""The code point of the character that represents the byte 0x80."""
_SHIFT = _FIRST - 0xDC80
_HALF = re.compile("[\udc80-\udcff]")
_WITHOUT_TEXTS = (bytes, int, float, type(None))
_STANDS_FOR_BYTE = re.compile("[\U0010ff80-\U0010ffff]")


def writable(text: str) -> str:
    """Return `text`, which Python read from the operating system, with a character for private use
    in place of each byte that is not UTF-8.
    """
    if text.isascii():
        return text
    return _HALF.sub(lambda found: chr(ord(found.group()) + _SHIFT), text)


def native(text: str) -> str:
    """Turn text made by `writable` back into text of the operating system, for `os.fsencode` and
    its callers.
    """
    if text.isascii():
        return text
    return _STANDS_FOR_BYTE.sub(lambda found: chr(ord(found.group()) - _SHIFT), text)


def byte_shown(character: str) -> str:
    """Return the byte that a character represents, for display: a backslash, an x, and two hex
    digits. Return "" for any other character.
    """
    text = native(character)
    return f"\\x{ord(text) - 0xDC00:02x}" if _HALF.match(text) else ""


def all_writable(value: T) -> T:
    """Return a copy of a message or a record in which `writable` was applied to each text, at any
    depth.
    """
    return _with_texts(value, writable)


def all_native(value: T) -> T:
    """Return a copy of a message or a record in which `native` was applied to each text, at any
    depth.
    """
    return _with_texts(value, native)


def _with_texts(value: T, change: Callable[[str], str]) -> T:
    made: object = value
    if isinstance(value, str):
        made = change(value)
    elif isinstance(value, _WITHOUT_TEXTS) or (
        isinstance(value, list | dict) and _is_ascii(value)  # as almost always
    ):
        pass
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        made = type(value)(*(_with_texts(one, change) for one in value))
    elif isinstance(value, list | tuple | set | frozenset):
        made = type(value)(_with_texts(one, change) for one in value)
    elif isinstance(value, dict):
        made = {_with_texts(k, change): _with_texts(one, change) for k, one in value.items()}
    elif isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        texts = {name: _with_texts(one, change) for name, one in fields.items()}
        changed = {name: text for name, text in texts.items() if text is not fields[name]}
        made = msgspec.structs.replace(value, **changed) if changed else value
    return made  # type: ignore[return-value]


def _is_ascii(value: list[Any] | dict[Any, Any]) -> bool:
    """Whether a list or a dict contains only ASCII texts."""
    try:
        is_ascii = "".join(value).isascii()
        return is_ascii and (isinstance(value, list) or "".join(value.values()).isascii())
    except TypeError:
        return False


def encoded(encode: Callable[[T], bytes], value: T) -> bytes:
    """Return `encode(value)` for a value that may hold bytes which are not UTF-8.

    Such bytes are rare, so they are replaced only after an encoder refuses them.
    """
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(all_writable(value))
