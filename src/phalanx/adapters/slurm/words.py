"""Reads the arguments of Slurm's commands in the forms of getopt_long: `-n4`, `-n 4`, `--ntasks=4`,
`--nta 4`, and options with an optional value in the same word (`-K0`, `--exclusive=user`).
"""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.adapters.slurm.options import Option, OptionError
from phalanx.model.nearest import nearest


def read_options(
    command: str, known: Sequence[Option], words: Sequence[str], intermixed: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Return the options by their long names, and the words after the options. The value of a flag
    is "". `intermixed`: whether words may come before options. Raises OptionError, which names the
    unknown or refused option.
    """
    found: dict[str, str] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return found, rest + left
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            option = _long(command, known, name)
            _put(command, found, option, f"--{name}", value if has_value else None, left)
        elif word.startswith("-") and word != "-":
            _shorts(command, known, word[1:], left, found)
        elif intermixed:
            rest.append(word)
        else:
            return found, [word, *left]
    return found, rest


def _shorts(
    command: str, known: Sequence[Option], letters: str, left: list[str], found: dict[str, str]
) -> None:
    while letters:
        letter, letters = letters[0], letters[1:]
        option = next((one for one in known if letter in (one.short, one.also)), None)
        if option is None:
            raise OptionError(f"{command}: option -{letter} not recognized")
        value = None
        if option.takes_value and letters:
            value, letters = letters, ""
        _put(command, found, option, f"-{letter}", value, left)


def _long(command: str, known: Sequence[Option], name: str) -> Option:
    """Return the option of this name, or the only option whose name begins with it."""
    exact = [one for one in known if one.long == name]
    close = exact or [one for one in known if name and one.long.startswith(name)]
    if len(close) > 1:
        several = ", ".join(f"--{one.long}" for one in close)
        raise OptionError(f"{command}: option --{name} is ambiguous: {several}")
    if not close:
        near = nearest(name, [one.long for one in known])
        raise OptionError(f"{command}: option --{name} not recognized{near}")
    return close[0]


def _put(
    command: str,
    found: dict[str, str],
    option: Option,
    written: str,
    value: str | None,
    left: list[str],
) -> None:
    if option.refused:
        raise OptionError(f"{command}: {written} is not supported: {option.refused}.")
    if option.takes_value and value is None and not option.is_optional:
        if not left:
            raise OptionError(f"{command}: option {written} requires argument")
        value = left.pop(0)
    elif not option.takes_value and value is not None:
        raise OptionError(f"{command}: option {written} must not have an argument")
    found[option.long] = value or ""
