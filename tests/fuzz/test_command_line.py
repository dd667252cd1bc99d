"""Every command with any words and any answer of a head: it ends in order, and prints nothing that
steers a terminal."""

from __future__ import annotations

import random
from typing import Any

import click
import msgspec
import pytest
import typer
from tests.fuzz.requests import KNOWN, SPECIAL
from tests.fuzz.running import try_out
from tests.fuzz.values import HOSTILE_TEXTS, Maker
from typer.testing import CliRunner

from phalanx.cli.commands import app
from phalanx.protocol.requests.request import Request, reply_type

ASKING = ("phalanx.cli.cluster", "phalanx.cli.jobs", "phalanx.cli.families", "phalanx.cli.queues")
ENDLESS = ("watch", "follow")
_MOST_ASKED = 10
"""Questions of one command; `run` would ask until its job is over."""


class Endless(BaseException):
    """The command waits for something."""


def commands(
    group: click.Command, words: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    """The commands that ask a head, with their words."""
    if isinstance(group, click.Group):
        return [
            found for name, one in group.commands.items() for found in commands(one, (*words, name))
        ]
    asks = group.callback is not None and group.callback.__module__ in ASKING
    return [(words, group)] if asks or words == ("explain",) else []


COMMANDS = commands(typer.main.get_command(app))


def word(maker: Maker, param: click.Parameter) -> str:
    """A value on a command line."""
    if isinstance(param.type, click.Choice) and not maker.is_wild():
        return str(maker.rng.choice(param.type.choices))
    if "int" in param.type.name and not maker.is_wild():
        return str(maker.integer())
    found = maker.text() if maker.rng.random() < 0.5 else maker.rng.choice(HOSTILE_TEXTS)
    return found.replace("\0", "0")  # no command line has these


def draw(rng: random.Random) -> list[tuple[tuple[str, ...], int]]:
    words, command = rng.choice(COMMANDS)
    maker = Maker(rng, KNOWN, SPECIAL)
    line = list(words)
    for param in command.params:
        if param.name in ENDLESS or param.name == "help":
            continue
        if isinstance(param, click.Option) and rng.random() < 0.3:
            line += [param.opts[0]] if param.is_flag else [param.opts[0], word(maker, param)]
        elif isinstance(param, click.Argument):
            line.append(word(maker, param))
    return [(tuple(line), rng.randrange(1 << 30))]


def ends_in_order(lines: list[tuple[tuple[str, ...], int]]) -> None:
    for words, seed in lines:
        maker = Maker(random.Random(seed), {}, SPECIAL)
        asked = 0

        def answer(
            session: Any,
            daemon: Any,
            request: Request[Any],
            patience_s: float,
            maker: Maker = maker,
        ) -> Any:
            nonlocal asked
            asked += 1
            if asked > _MOST_ASKED:
                raise Endless
            msgspec.msgpack.encode(request)
            if maker.rng.random() < 0.2:
                raise ValueError(maker.rng.choice(HOSTILE_TEXTS))
            kind = reply_type(type(request))
            return msgspec.convert(msgspec.to_builtins(maker.value(kind)), kind, strict=False)

        def wait(seconds: float) -> None:
            raise Endless

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("phalanx.cli.reach._daemons", lambda address: [(None, None)])
            patch.setattr("phalanx.engines.embedded.visitor.ask_daemon", answer)
            patch.setattr("time.sleep", wait)
            try:
                done = CliRunner().invoke(app, list(words))
            except Endless:
                continue
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise AssertionError(f"{words!r:.300}") from done.exception
        text = done.stderr if words[0] in ("logs", "snapshot") else done.output
        bad = {char for char in text if not char.isprintable() and char != "\n"}
        assert not bad, f"{words[0]} prints {bad!r}"


def test_command_lines_end_in_order() -> None:
    try_out(draw, ends_in_order, 200)
