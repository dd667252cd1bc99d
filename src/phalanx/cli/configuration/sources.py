"""The values of options from the command line, the environment and the configuration files. The
command line takes precedence, then the variable, the user's file, and the machine's file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any, NamedTuple

from phalanx.cli.configuration.keys import TABLES, Key, keys
from phalanx.cli.configuration.lines import SyntaxFault, key_lines, read_toml
from phalanx.cli.configuration.values import OF_HEAD
from phalanx.model.nearest import nearest

VARIABLE = "PHALANX_CONFIG"
"""The variable that names a file to read instead of the user's file."""
OF_MACHINE = "/etc/phalanx/config.toml"


class Setting(NamedTuple):
    """The value that one source has for an option."""

    value: Any
    source: str
    """The source for display: an option, a variable, or a file and a line."""


class Fault(NamedTuple):
    """An error in a file or a variable."""

    source: str
    text: str

    def __str__(self) -> str:
        return f"{self.source}: {self.text}"


class Source(NamedTuple):
    """One source of values: its settings, and the faults in it."""

    name: str
    settings: dict[str, Setting]
    """The settings by the paths of their keys."""
    faults: list[Fault]


def user_file(variables: Mapping[str, str]) -> str:
    """Return the path of the user's configuration file, which may be missing."""
    given = variables.get(VARIABLE)
    return given or os.path.join(os.path.expanduser("~"), ".phalanx", "config.toml")


def read_sources(variables: Mapping[str, str], of_machine: str = OF_MACHINE) -> list[Source]:
    """Return the environment and the files, in order of precedence. A file that PHALANX_CONFIG
    names must exist; all other files may be missing.
    """
    mine = user_file(variables)
    must_be = bool(variables.get(VARIABLE))
    files = [mine] if os.path.abspath(mine) == of_machine else [mine, of_machine]
    found = [read_environment(variables)]
    found += [
        read_file(path) for path in files if os.path.lexists(path) or (must_be and path == mine)
    ]
    return found


def read_environment(variables: Mapping[str, str]) -> Source:
    """Return the values in the variables of the options."""
    source = Source("environment", {}, [])
    for key in keys().values():
        if not (text := variables.get(key.variable)):
            continue
        try:
            source.settings[key.path] = Setting(key.read_variable(text), key.variable)
        except ValueError as error:
            source.faults.append(Fault(key.variable, _reason(error)))
    return source


def read_file(path: str) -> Source:
    """Return the values in a file, and the faults in it."""
    source = Source(path, {}, [])
    try:
        with open(path, encoding="utf-8") as file:
            danger = _danger(os.fstat(file.fileno()))
            text = "" if danger else file.read()
    except OSError as error:
        danger = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        danger = "cannot be read: it is not UTF-8"
    if danger:
        source.faults.append(Fault(path, danger))
        return source
    try:
        tables = read_toml(text)
    except SyntaxFault as fault:
        source.faults.append(Fault(_place(path, fault.line), f"is no TOML: {fault}."))
        return source
    lines = key_lines(text)
    folder = os.path.dirname(os.path.abspath(path))
    for table, values in tables.items():
        if table not in TABLES or not isinstance(values, dict):
            known = ", ".join(f"[{one}]" for one in TABLES)
            near = nearest(table, TABLES) or "."
            source.faults.append(
                Fault(
                    _place(path, lines.get((table,), 1)),
                    f"there is no table {table!r}{near} The tables are {known}.",
                )
            )
            continue
        for name, value in values.items():
            _take(source, folder, f"{table}.{name}", value, lines.get((table, name), 1))
    return source


def _take(source: Source, folder: str, path: str, value: Any, line: int) -> None:
    """Read one value of a file, and add a setting or a fault to `source`."""
    place = _place(source.name, line)
    key = keys().get(path)
    if key is None:
        table, _, name = path.partition(".")
        near = nearest(name, TABLES[table]) or "."
        source.faults.append(Fault(place, f"there is no key {name!r} in [{table}]{near}"))
        return
    try:
        source.settings[path] = Setting(key.read(value, folder), place)
    except (TypeError, ValueError) as error:
        source.faults.append(Fault(place, f"{path}: {_reason(error)}"))


def settle(table: str, given: Mapping[str, Any], sources: list[Source]) -> dict[str, Setting]:
    """Return the values that apply to a command, by the names of its parameters. `given`: the
    options of the command line, where None, False and empty values mean that an option is not
    given. Raises ValueError for the first fault in a source.
    """
    if faults := [fault for source in sources for fault in source.faults]:
        raise ValueError(f"{faults[0]} `phalanx config check` shows all faults.")
    mine = {key.name: key for key in keys().values() if key.table == table}
    levels = [
        {
            name: Setting(given[name], key.option)
            for name, key in mine.items()
            if _is_given(given.get(name))
        }
    ]
    levels += [
        {
            name: source.settings[key.path]
            for name, key in mine.items()
            if key.path in source.settings
        }
        for source in sources
    ]
    found = {name: one for level in reversed(levels) for name, one in level.items()}
    return _of_one_kind(found, levels) if table == "start" else found


def _is_given(value: Any) -> bool:
    """Whether an option was given; the number 0 is a value."""
    return not (value is None or value is False or value == [])


def _of_one_kind(found: dict[str, Setting], levels: list[dict[str, Setting]]) -> dict[str, Setting]:
    """Return `found` without the settings that do not fit the kind of start: a head, or a node that
    joins a cluster. The first source with `head` or `address` decides the kind. So one file can
    serve all machines of a cluster, and `--address` on the command line overrides the file.
    """
    first = next((level for level in levels if "head" in level or "address" in level), {})
    kept = dict(found)
    for name in ("head", "address"):
        if name not in first:
            kept.pop(name, None)
    if "address" in kept:
        for name in OF_HEAD:
            if name not in levels[0]:
                kept.pop(name, None)
    return kept


def all_settings(key: Key, sources: list[Source]) -> list[Setting]:
    """Return the settings of a key from all sources. The first setting applies."""
    return [source.settings[key.path] for source in sources if key.path in source.settings]


def _danger(found: os.stat_result) -> str:
    """Return why a file cannot be trusted; "" for a file that can be trusted. A file must be
    trusted because the commands of its checks are run.
    """
    if not stat.S_ISREG(found.st_mode):
        return "must be a file."
    if found.st_uid not in (0, os.getuid()):
        return "belongs to another user: it must belong to root or to you."
    if found.st_mode & 0o022:
        return f"can be changed by others (mode {found.st_mode & 0o777:04o}): chmod go-w it."
    return ""


def _place(path: str, line: int) -> str:
    return f"{path}, line {line}"


def _reason(error: Exception) -> str:
    text = str(error)
    return text if text.endswith((".", "?")) else f"{text}."
