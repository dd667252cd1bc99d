"""Converts commands declared with `options` to Typer's form, for help, completion and errors."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from phalanx.cli.ending import Ended
from phalanx.cli.options import AllWords, F, Group, Option, Parameter


class EndingGroup(TyperGroup):
    """A group whose commands may raise `Ended`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Ended as ended:
            raise typer.Exit(ended.code) from None


class Command(TyperCommand):
    """A command with changed help. Arguments are named in upper case, as they are in the texts. The
    column for the texts is wide. Each text ends with the default and the range of a number. Names
    that only restore the default of a flag (`--no-previous`) are not listed.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help from changed copies of the parameters."""
        shown: Any = copy.copy(self)
        shown.params = [_for_help(one) for one in self.params]
        TyperCommand.format_help(shown, ctx, formatter)


def _for_help(parameter: Any) -> Any:
    """Return a copy of a parameter, changed for the help."""
    shown = copy.copy(parameter)
    is_option = shown.param_type_name == "option"
    least, most = getattr(shown, "min", None), getattr(shown, "max", None)
    if not is_option:
        name = shown.metavar or shown.name.upper()
        shown.metavar = name if shown.nargs == 1 else name.removesuffix("...").removesuffix("S")
    elif shown.secondary_opts:
        shown.secondary_opts, shown.show_default = [], False
    default = getattr(shown.default, "value", shown.default)
    if shown.show_default is True and default not in (None, "") and default is not False:
        value = f"{default:g}" if isinstance(default, float) else default
        shown.show_default, shown.help = False, f"{shown.help} Default: {value}."
    if least is None and most is None:
        return shown
    shown.min = shown.max = None
    kind = getattr(getattr(shown, "type_descriptor", None), "annotation", int)
    if is_option and isinstance(kind, type):
        shown.metavar = f"<{kind.__name__}>"
    if most is not None:
        shown.help = f"{shown.help} \\[range: {least}-{most}]"
    elif least is not None and least > 0:
        shown.help = f"{shown.help} \\[minimum: {least}]"
    return shown


class App(typer.Typer):
    """An app of Typer whose functions may be declared with `options`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        """Return a decorator that adds a function as a command."""
        settings.setdefault("cls", Command)
        add = super().command(name, **settings)

        def added(function: F) -> F:
            add(typer_form(function))
            return function

        return added


def app_of(group: Group) -> App:
    """Return a group of commands as an app."""
    app = App(name=group.name, help=group.help, no_args_is_help=True)
    if len(group.commands) == 1:
        app.callback()(lambda: None)  # otherwise Typer takes the only command for the group itself
    for name, function in group.commands.items():
        app.command(name)(function)
    return app


def typer_form(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `function`, and whose parameters are declared in Typer's
    form.
    """
    hints = get_type_hints(function, include_extras=True)
    if any(_takes_all_words(hint) for hint in hints.values()):
        return _with_context(function)
    forms = {name: _form(hint) for name, hint in hints.items()}
    signature = inspect.signature(function)

    @functools.wraps(function)
    def run(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    run.__annotations__ = forms
    run.__doc__ = _filled(function.__doc__ or "")
    parameters = [
        one.replace(annotation=forms.get(name, one.annotation))
        for name, one in signature.parameters.items()
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _filled(text: str) -> str:
    """Return a docstring with each paragraph in one line, so that the help fits any width."""
    return "\n\n".join(" ".join(one.split()) for one in re.split(r"\n\s*\n", text))


def _takes_all_words(hint: Any) -> bool:
    return get_origin(hint) is Annotated and isinstance(get_args(hint)[1], AllWords)


def _with_context(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(context: typer.Context) -> Any:
        return function(context.args)

    run.__name__, run.__doc__ = function.__name__, _filled(function.__doc__ or "")
    run.__annotations__ = {"context": typer.Context}
    return run


def _form(hint: Any) -> Any:
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    made = [_declared(note) if isinstance(note, Parameter) else note for note in notes]
    return Annotated[(kind, *made)]


def _declared(parameter: Parameter) -> Any:
    make = typer.Option if isinstance(parameter, Option) else typer.Argument
    settings = dict(parameter.settings)
    if "parser" in settings:
        settings["parser"] = _refusing(settings["parser"])
    return make(*parameter.names, **settings)


def _refusing(parser: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a parser, so that Typer shows the text of its ValueError unchanged."""

    @functools.wraps(parser)
    def read(given: Any) -> Any:
        try:
            return parser(given)
        except ValueError as error:
            raise typer.BadParameter(f"{error}.") from None

    return read
