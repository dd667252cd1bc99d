"""Every command is run with random arguments, and the head gives random answers. Each command must
end with an expected error or exit code, and print nothing that controls a terminal.
"""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import typer
from tests.fuzz.requests import KNOWN, SPECIAL
from tests.fuzz.running import try_out
from tests.fuzz.values import HOSTILE_TEXTS, Maker
from typer.testing import CliRunner

from phalanx.cli.typer_app import app
from phalanx.model.rows.work import QueueInfo
from phalanx.protocol.requests.request import Request, reply_type

ASKING = (
    "phalanx.cli.cluster",
    "phalanx.cli.jobs",
    "phalanx.cli.run",
    "phalanx.cli.submit",
    "phalanx.cli.queues",
    "phalanx.cli.explain",
)
ENDLESS = ("watch", "follow")
_MOST_ASKED = 10
"""The most requests of one command that are answered. `run` would otherwise ask until its job is
over.
"""

HERE = SimpleNamespace(kind="head", address="127.0.0.1:1")
"""A daemon of this machine, as commands find it."""


Line = tuple[tuple[str, ...], int]
"""The words of a command, and the seed from which its answers are drawn."""


ANSWERS: dict[Any, Any] = {
    **SPECIAL,
    bytes: lambda maker: b"{}",
    float: lambda maker: maker.rng.choice([0.0, 1.0, 1.5, 1.7e9]),
    list[dict[str, Any]]: lambda maker: [{"state": maker.text()}],
}
ANSWERS[list[QueueInfo]] = lambda maker: [maker.value(QueueInfo)]
"""Makers of answers that are not described by their type alone. Commands rely on the head to give
such answers.
"""


class Endless(BaseException):
    """Raised when a command waits without end."""


def commands(group: Any, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Return the commands that ask a head, each with its words."""
    if hasattr(group, "commands"):
        inside = group.commands.items()
        return [found for name, one in inside for found in commands(one, (*words, name))]
    is_asking = group.callback.__module__ in ASKING and words[0] not in ("demo", "bench")
    return [(words, group)] if is_asking else []


COMMANDS = commands(typer.main.get_command(app))
assert len(COMMANDS) > 20


def word(maker: Maker) -> str:
    """Return an argument of a command, without a NUL character."""
    rng = maker.rng
    found = [maker.text(), rng.choice(HOSTILE_TEXTS), str(maker.integer()), f"a={maker.number()}"]
    return rng.choice(found).replace("\0", "0")


def draw(rng: random.Random) -> list[Line]:
    words, command = rng.choice(COMMANDS)
    maker = Maker(rng, KNOWN, SPECIAL)
    line = list(words)
    for param in command.params:
        option = param.opts[0]
        if param.name in ENDLESS:
            continue
        if not option.startswith("-"):
            line.append(word(maker))
        elif rng.random() < 0.3:
            line += [option] if param.is_flag else [option, word(maker)]
    return [(tuple(line), rng.randrange(1 << 30))]


def write_inside(path: Path, data: bytes) -> int:
    """Replace Path.write_bytes: refuse to write outside the current directory, because random
    arguments may name any file of this machine.
    """
    if not path.resolve().is_relative_to(Path.cwd()):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    with path.open("wb") as file:
        return file.write(data)


def ends_in_order(lines: list[Line]) -> None:
    for words, seed in lines:
        maker = Maker(random.Random(seed), {}, ANSWERS)
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
            patch.setattr("phalanx.cli.reach.daemons_of", lambda *_: [(None, HERE)])
            patch.setattr("phalanx.runtime.daemons.visitor.ask_daemon", answer)
            patch.setattr("time.sleep", wait)
            patch.setattr(Path, "write_bytes", write_inside)
            try:
                done = CliRunner().invoke(app, list(words))
            except Endless:
                continue
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise AssertionError(f"{words!r:.300}") from done.exception
        text = done.stderr if words[0] in ("logs", "snapshot") else done.output
        bad = {char for char in text if not char.isprintable() and char != "\n"}
        assert not bad, f"{words[0]} prints {bad!r}"


def test_command_lines_end_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try_out(draw, ends_in_order, 200)
