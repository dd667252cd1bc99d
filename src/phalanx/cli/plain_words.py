"""Reads usual command lines, by the declarations of `options`. `read` handles flags, options with a
value, and words, in the same way as Typer. In all other cases it raises `NotPlain`: for help,
completion, a wrong value, a missing word, or a declaration that it does not support. Then Typer
reads the same command line.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from phalanx.cli.options import Option, Parameter

_KNOWN = frozenset(
    {"callback", "help", "max", "metavar", "min", "parser", "rich_help_panel", "show_default"}
)
"""The settings of parameters that this module supports: they change only the help, or
`_Parameter.value` applies them.
"""
_WHOLE = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")


class NotPlain(Exception):
    """Raised for words and declarations that only Typer can handle."""


class _Parameter:
    """One parameter of a function, and its form on the command line."""

    def __init__(self, name: str, hint: Any, has_default: bool) -> None:
        if not hasattr(hint, "__metadata__"):
            raise NotPlain
        declared = hint.__metadata__
        if len(declared) != 1 or not isinstance(declared[0], Parameter):
            raise NotPlain
        self.name = name
        self.declared: Parameter = declared[0]
        if not self.declared.settings.keys() <= _KNOWN:
            raise NotPlain
        self.has_default = has_default
        kind = hint.__origin__
        if get_origin(kind) in (Union, types.UnionType):
            kinds = [one for one in get_args(kind) if one is not type(None)]
            if len(kinds) != 1:
                raise NotPlain
            (kind,) = kinds
        self.is_list = get_origin(kind) is list
        self.kind = get_args(kind)[0] if self.is_list else kind
        if self.kind not in (bool, str, int, float, Path):
            raise NotPlain

    def flags(self) -> Iterator[tuple[str, bool | None]]:
        """Yield each name of this option with the value that it sets; None for an option that takes
        a value.
        """
        names = [one for one in self.declared.names if one.startswith("-")]
        is_flag = self.kind is bool
        if any("/" in one for one in names):
            raise NotPlain
        if not names:
            word = self.name.replace("_", "-")
            names = [f"--{word}"]
            if is_flag:
                yield f"--no-{word}", False
        for one in names:
            yield one, True if is_flag else None

    def value(self, text: str) -> Any:
        if (parser := self.declared.settings.get("parser")) is not None:
            try:
                return parser(text)
            except ValueError:
                raise NotPlain from None
        if self.kind is str:
            return text
        if self.kind is Path:
            return Path(text)
        form = _WHOLE if self.kind is int else _DECIMAL
        if not form.fullmatch(text):
            raise NotPlain
        found = self.kind(text)
        settings = self.declared.settings
        least, most = settings.get("min"), settings.get("max")
        if (least is not None and found < least) or (most is not None and found > most):
            raise NotPlain
        return found


def read(function: Callable[..., Any], words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments for `function` from these words. Raises NotPlain."""
    parameters = _parameters(function)
    options = [one for one in parameters if isinstance(one.declared, Option)]
    line = _Line(options, words)
    while line.left:
        line.take_one()
    given = line.given
    _share_words([one for one in parameters if one not in options], line.others, given)
    for one in parameters:
        if one.name not in given and not one.has_default:
            raise NotPlain
    for one in parameters:
        callback = one.declared.settings.get("callback")
        if callback is not None and one.name in given:
            given[one.name] = callback(given[one.name])
    return given


class _Line:
    """A command line, which is read from left to right."""

    def __init__(self, options: Sequence[_Parameter], words: Sequence[str]) -> None:
        self.left = list(reversed(words))
        self.given: dict[str, Any] = {}
        self.others: list[str] = []
        """The words that are not options."""
        self._by_word = {word: (one, flag) for one in options for word, flag in one.flags()}

    def take_one(self) -> None:
        """Read the next word and, if it is an option with a value, the value."""
        word = self.left.pop()
        if word == "--":
            self.others += reversed(self.left)
            self.left.clear()
        elif word[:1] != "-" or word == "-":
            self.others.append(word)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            self._set(name, value if equals else None)
        else:
            self._short(word)

    def _short(self, word: str) -> None:
        """Read an option of one letter. Its value, or further options of one letter, may follow in
        the same word.
        """
        name, rest = word[:2], word[2:]
        takes_value = self._option(name)[1] is None
        if rest and not takes_value:
            self.left.append(f"-{rest}")
        self._set(name, rest if rest and takes_value else None)

    def _set(self, name: str, value: str | None) -> None:
        option, flag = self._option(name)
        if flag is not None:
            if value is not None:
                raise NotPlain
            self.given[option.name] = flag
            return
        if value is None:
            if not self.left:
                raise NotPlain
            value = self.left.pop()
        found = option.value(value)
        if option.is_list:
            self.given.setdefault(option.name, []).append(found)
        else:
            self.given[option.name] = found

    def _option(self, name: str) -> tuple[_Parameter, bool | None]:
        found = self._by_word.get(name)
        if found is None:
            raise NotPlain
        return found


def _parameters(function: Callable[..., Any]) -> list[_Parameter]:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    if code.co_kwonlyargcount:
        raise NotPlain
    required = len(names) - len(function.__defaults__ or ())
    hints = get_type_hints(function, include_extras=True)
    return [
        _Parameter(name, hints.get(name), number >= required) for number, name in enumerate(names)
    ]


def _share_words(arguments: list[_Parameter], words: list[str], given: dict[str, Any]) -> None:
    """Assign the words that are not options to the arguments. The last argument may take several
    words.
    """
    if any(one.is_list for one in arguments[:-1]):
        raise NotPlain
    for one in arguments:
        if one.is_list:
            if words:
                given[one.name] = [one.value(word) for word in words]
            return
        if words:
            given[one.name] = one.value(words[0])
            words = words[1:]
    if words:
        raise NotPlain
