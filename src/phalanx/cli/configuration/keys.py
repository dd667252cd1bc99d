"""The keys of the configuration file, made from the declarations of the options that they set."""

from __future__ import annotations

import functools
import json
import os
import shlex
import types
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from phalanx.cli.configuration.values import StartOptions, check_value
from phalanx.cli.options import Option
from phalanx.cli.registry import definition
from phalanx.model.nearest import nearest

TABLES = {
    "start": tuple(StartOptions.__struct_fields__),
    "dashboard": ("address", "host", "port", "name", "certificate", "key", "read_only"),
}
"""The tables of the file. Each is named after a command, and may contain these options of the
command.
"""
_PAIRS = frozenset({"history", "limit", "labels", "check"})
"""The keys whose value is a list of NAME=VALUE, which may also be written as a table."""
_OBJECTS = frozenset({"resources", "placement", "system_config"})
"""The keys whose value is a JSON object as text, which may also be written as a table."""
_FILES = frozenset({"token_file", "devices", "certificate", "key"})
"""The keys whose value is a path, which may be relative to the folder of the file."""
_ELSEWHERE = {"token_file": "PHALANX_TOKEN_FILE"}
"""By key: the environment variables whose names do not have the usual form."""
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Key(NamedTuple):
    """One key of the file: the option of a command."""

    table: str
    name: str
    option: str
    """The option as people write it, such as `--num-cpus`."""
    kind: type
    is_list: bool
    settings: dict[str, Any]
    """The settings with which the option was declared, such as `help`."""

    @property
    def path(self) -> str:
        """The key with its table, such as `start.num_cpus`."""
        return f"{self.table}.{self.name}"

    @property
    def variable(self) -> str:
        """The variable that sets the same option."""
        return _ELSEWHERE.get(self.name, f"PHALANX_{self.table}_{self.name}".upper())

    @property
    def help(self) -> str:
        """The option's help text."""
        return str(self.settings["help"])

    @property
    def default(self) -> Any:
        """The value if no source has the key. If it is None or empty, `help` describes the
        default.
        """
        if self.table == "start":
            return getattr(StartOptions(), self.name)
        return "127.0.0.1" if self.name == "host" else None

    @property
    def form(self) -> str:
        """A description of the allowed values, for display."""
        one = {bool: "true or false", int: "whole number", float: "number"}.get(self.kind, "text")
        if "parser" in self.settings:
            one = "number, or text with a unit"
        if self.name in _PAIRS:
            return "table, or list of NAME=VALUE"
        if self.name in _OBJECTS:
            return "text, or table"
        return f"list of {one}" if self.is_list else one

    @property
    def _a_form(self) -> str:
        return self.form if self.kind is bool else f"a {self.form}"

    def read(self, value: Any, folder: str) -> Any:
        """Convert a value of a file in this folder to the option's value. Raises ValueError with
        the reason if the value is invalid.
        """
        if self.name in _PAIRS and isinstance(value, dict):
            value = [f"{name}={self._word(one)}" for name, one in value.items()]
        elif self.name in _OBJECTS and isinstance(value, dict):
            value = json.dumps(value)
        if not self.is_list:
            return self._checked(self._one(value, folder))
        if not isinstance(value, list):
            value = [value]
        return self._checked([self._one(one, folder) for one in value])

    def read_variable(self, text: str) -> Any:
        """Convert the text of a variable to the option's value. Raises ValueError with the reason
        if the text is invalid.
        """
        if self.is_list:
            return self._checked(shlex.split(text))
        if self.kind is bool:
            if text.lower() not in _YES + _NO:
                raise ValueError(f"takes 1 or 0, not {text!r}")
            return text.lower() in _YES
        given: Any = text
        if self.kind in (int, float) and "parser" not in self.settings:
            try:
                given = self.kind(text)
            except ValueError:
                raise ValueError(f"takes {self._a_form}, not {text!r}") from None
        return self._checked(self._one(given, os.getcwd() if self.name in _FILES else ""))

    def _one(self, value: Any, folder: str) -> Any:
        if (parser := self.settings.get("parser")) is not None:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError(f"takes {self._a_form}, not {shown(value)}")
            return parser(value)
        kind: type = str if self.kind is Path else self.kind
        is_right = type(value) is kind  # isinstance would take True for an int
        if not is_right:
            raise ValueError(f"takes {self._a_form}, not {shown(value)}")
        least, most = self.settings.get("min"), self.settings.get("max")
        if least is not None and (value < least or (most is not None and value > most)):
            upper = "" if most is None else f" and at most {most}"
            raise ValueError(f"takes a number of at least {least}{upper}, not {value}")
        if self.name in _FILES or (self.name == "store" and value != "memory" and ":" not in value):
            value = os.path.join(folder, os.path.expanduser(value))
        return Path(value) if self.kind is Path else value

    def _word(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"takes texts and numbers in its table, not {shown(value)}")
        return str(value)

    def _checked(self, value: Any) -> Any:
        if self.table == "start":
            check_value(self.name, value)
        return value


@functools.cache
def keys() -> dict[str, Key]:
    """Return all keys by their paths, such as `start.num_cpus`, in the order of the help."""
    found = {}
    for table, names in TABLES.items():
        hints = get_type_hints(definition(table), include_extras=True)
        for name in names:
            key = _key(table, name, hints[name])
            found[key.path] = key
    return found


def find(word: str) -> Key:
    """Return the key that `word` names.

    The table may be left out, and - may stand for _. Raises ValueError, which suggests the nearest
    key.
    """
    path = word.strip().lstrip("-").replace("-", "_")
    known = keys()
    for one in (path, *(f"{table}.{path}" for table in TABLES)):
        if one in known:
            return known[one]
    near = nearest(path, [*known, *(key.name for key in known.values())]) or "."
    raise ValueError(f"There is no key {word!r}{near} `phalanx config show` lists all keys.")


def shown(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, Path):
        value = str(value)
    return json.dumps(value, default=str)


def _key(table: str, name: str, hint: Any) -> Key:
    kind, declared = hint.__origin__, hint.__metadata__[0]
    assert isinstance(declared, Option)
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (one for one in get_args(kind) if one is not types.NoneType)
    is_list = get_origin(kind) is list
    option = declared.names[0] if declared.names else f"--{name.replace('_', '-')}"
    kind = get_args(kind)[0] if is_list else kind
    return Key(table, name, option, kind, is_list, declared.settings)
