"""The commands `phalanx config ...`: the configuration file, and the values in force."""

from __future__ import annotations

import json as json_module
import os
from collections.abc import Iterable
from typing import Annotated, Any

from phalanx.cli.common_options import Json
from phalanx.cli.options import Argument, Group
from phalanx.cli.reach import NOT_FOUND, USAGE, fail
from phalanx.cli.table import echo, in_lines, say, table

app = Group(name="config", help="Check, show and explain the configuration.")

FORMAT = "phalanx-config/1"


@app.command()
def check(
    file: Annotated[
        str,
        Argument(
            help="File to check. Default: the files and variables that `phalanx start` reads."
        ),
    ] = "",
) -> None:
    """Check the configuration; print each fault with its file and line.

    Exit 2: there is a fault.
    """
    from phalanx.cli.configuration.sources import read_file, read_sources

    sources = [read_file(file)] if file else read_sources(os.environ)
    faults = [fault for source in sources for fault in source.faults]
    for fault in faults:
        say(in_lines(str(fault)), err=True)
    if faults:
        fail("1 fault." if len(faults) == 1 else f"{len(faults)} faults.", USAGE)
    for source in sources:
        count = len(source.settings)
        say(f"{source.name}: no fault, {count} {'value' if count == 1 else 'values'}.")


@app.command()
def show(json: Json = False) -> None:
    """Show the value of each configuration key, and the source of the value."""
    from phalanx.cli.configuration.keys import TABLES, keys
    from phalanx.cli.configuration.sources import read_sources, settle

    sources = read_sources(os.environ)
    try:
        held = {
            f"{name}.{key}": setting
            for name in TABLES
            for key, setting in settle(name, {}, sources).items()
        }
    except ValueError as error:
        fail(str(error), USAGE)
    rows = [
        (path, held[path].value, held[path].source)
        if path in held
        else (path, key.default, "default")
        for path, key in keys().items()
    ]
    if json:
        values = [{"key": path, "value": _plain(value), "from": by} for path, value, by in rows]
        echo(json_module.dumps({"format": FORMAT, "values": values}, indent=1))
    else:
        say(values_text(rows))


@app.command()
def explain(
    key: Annotated[
        str, Argument(help="Configuration key to explain, such as start.num_cpus or num-cpus.")
    ],
) -> None:
    """Explain a configuration key: its meaning, form, default, option and variable.

    Exit 3: no such key.
    """
    from phalanx.cli.configuration.keys import find, shown
    from phalanx.cli.configuration.sources import all_settings, read_sources, settle

    try:
        found = find(key)
    except ValueError as error:
        fail(str(error), NOT_FOUND)
    sources = read_sources(os.environ)
    default = "-" if _is_unset(found.default) else shown(found.default)
    say(in_lines(f"{found.path}: {found.help}"))
    say(
        f"  form      {found.form}\n"
        f"  default   {default}\n"
        f"  option    phalanx {found.table} {found.option}\n"
        f"  variable  {found.variable}"
    )
    try:
        held = settle(found.table, {}, sources).get(found.name)
    except ValueError as error:
        fail(str(error), USAGE)
    for setting in all_settings(found, sources):
        holds = "holds" if setting == held else "does not hold"
        say(f"  {holds}: {shown(setting.value)} from {setting.source}")


def values_text(rows: Iterable[tuple[str, Any, str]]) -> str:
    """Return a table of keys with their values and sources. Long values are cut on a terminal."""
    from phalanx.cli.configuration.keys import shown

    cells = [[path, "-" if _is_unset(value) else shown(value), by] for path, value, by in rows]
    return table(("KEY", "VALUE", "FROM"), cells, texts=("VALUE",))


def _is_unset(value: Any) -> bool:
    return value is None or value in ("", [])


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | list | None) else str(value)
