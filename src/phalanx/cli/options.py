"""Declarations of options, arguments and groups of commands, without Typer.

A command is a function whose parameters are annotated with `Option` or `Argument`. `plain_words`
reads the usual command lines from these declarations alone. `typer_form` turns them into Typer's
declarations, for help, completion and errors. Typer is avoided because its import takes longer than
most commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Parameter:
    """An option or an argument: `names`, such as `--queue`, and settings with Typer's names."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


class Option(Parameter):
    """An option. If no names are given, it has the name of the function's parameter."""


class Argument(Parameter):
    """An argument: a word of the command line that is not an option."""


class AllWords:
    """Marks a parameter that takes all words of the command line unchanged. Its function has no
    other parameter.
    """


class Group:
    """A command with further commands below it, such as `phalanx queue`."""

    def __init__(self, name: str, help: str, installs: Iterable[str] = ()) -> None:
        """`help`: the group's line in the help. `installs`: the names of the commands that a group
        of `phalanx compat` installs.
        """
        self.name = name
        self.help = help
        self.installs = frozenset(installs)
        self.commands: dict[str, Callable[..., Any]] = {}

    def command(self, name: str | None = None) -> Callable[[F], F]:
        """Add a function as a command, by default under the function's own name."""

        def added(function: F) -> F:
            self.commands[name or function.__name__.strip("_").replace("_", "-")] = function
            return function

        return added


class Registrar(Protocol):
    """The app to which another package adds commands by the entry point group
    `phalanx.commands`.
    """

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], Any]:
        """Return a decorator that adds a function; `settings` have Typer's names."""
        ...
