"""A group of commands. Each command's module is imported only when the command is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from phalanx.cli import registry
from phalanx.cli.options import Group
from phalanx.cli.registry import definition
from phalanx.cli.typer_form import App, EndingGroup, app_of
from phalanx.runtime.engine import entry_points

GROUP = "phalanx.commands"


class Commands(dict[str, Any]):
    """A mapping of the commands by name. A command is imported when it is looked up. Looking up a
    name that is not in the registry, and iterating over all commands, also import the commands of
    other installed packages.
    """

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(registry.ENTRIES))
        self._sources: list[Callable[[str], list[Any]]] = [entry_points.own, entry_points.others]

    def __getitem__(self, name: str) -> Any:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        while name not in self and self._sources:
            self._add(self._sources.pop(0))
        if super().get(name) is None and name in registry.ENTRIES:
            self[name] = _load(name)
        return super().get(name, default)

    def all(self) -> None:
        """Import and add the commands of all other packages."""
        while self._sources:
            self._add(self._sources.pop(0))

    def items(self) -> Any:
        self.all()
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [command for _, command in self.items()]

    def _add(self, source: Callable[[str], list[Any]]) -> None:
        for entry in source(GROUP):
            added = App()
            entry.load()(added)
            for name, command in typer.main.get_group(added).commands.items():
                self.setdefault(name, command)


def _load(name: str) -> Any:
    found, panel = definition(name), registry.PANEL_OF[name]
    parent = App()
    if isinstance(found, Group):
        found = app_of(found)
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name, rich_help_panel=panel)
    else:
        parent.command(name, rich_help_panel=panel)(found)
    return typer.main.get_group(parent).commands[name]


def _installed_by(name: str) -> str | None:
    """Return the group of `phalanx compat` that installs a command of this name; otherwise None."""
    for source in (entry_points.own, entry_points.others):
        for entry in source("phalanx.compat"):
            if name in getattr(entry.load(), "installs", ()):
                return entry.name
    return None


class LazyGroup(EndingGroup):
    """The group `phalanx`. Its help shows the registry's summaries, and imports no command."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = cast("dict[str, Any]", Commands())

    def list_commands(self, ctx: Any) -> list[str]:
        cast("Commands", self.commands).all()
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command. Ends the program if the command's package is not installed, or if only
        `phalanx compat` makes such a command.
        """
        found = self.commands.get(cmd_name)
        package = registry.IN_OTHER_PACKAGES.get(cmd_name)
        if found is None and package is not None and not ctx.resilient_parsing:
            folder = package.removeprefix("phalanx-")
            ctx.fail(
                f"`phalanx {cmd_name}` is in a separate package: pip install {package}, or in a "
                f"checkout pip install ./{folder}."
            )
        system = None if found is not None or ctx.resilient_parsing else _installed_by(cmd_name)
        if system is not None:
            ctx.fail(
                f"`{cmd_name}` is not a command of `phalanx`. It becomes a command of its own by "
                f"`phalanx compat {system} install DIRECTORY`."
            )
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help from the registry's summaries."""
        listing = TyperGroup(
            name=self.name,
            help=self.help,
            params=self.params,
            commands=dict(self._listed(ctx)),
            rich_markup_mode=self.rich_markup_mode,
        )
        listing.format_help(ctx, formatter)

    def _listed(self, ctx: Any) -> Iterator[tuple[str, Any]]:
        for name in self.list_commands(ctx):
            entry = registry.ENTRIES.get(name)
            if entry is None:
                yield name, self.commands.get(name)
            else:
                panel = registry.PANEL_OF[name]
                yield name, TyperCommand(name, help=entry.summary, rich_help_panel=panel)
