"""Command lines that are parsed without Typer give the same arguments as with Typer."""

from __future__ import annotations

import functools
import inspect
import random
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from phalanx.cli.options import Group, Option
from phalanx.cli.plain_words import NotPlain, _parameters, read
from phalanx.cli.registry import ENTRIES, definition
from phalanx.cli.typer_form import App

VALUES = (
    *("a", "b=c", "", "-", "--", "-x", "7", "-3", "1.5", "0", "9999999", "90s", "2h", "4Gi"),
    *("ü", "a,b", "1e3", " 5", "٣", "yes"),
)


def functions():
    for name in ENTRIES:
        found = definition(name)
        below = found.commands if isinstance(found, Group) else {"": found}
        for below_name, function in below.items():
            if inspect.isfunction(function):
                yield f"{name} {below_name}".strip(), function


FUNCTIONS = dict(functions())


def by_typer(function, words):
    """Return the arguments with which Typer calls the function; None if Typer reports an error."""
    called = []

    @functools.wraps(function)
    def noted(**given):
        called.append(given)

    app = App()
    app.callback()(lambda: None)
    app.command("it")(noted)
    done = CliRunner().invoke(app, ["it", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return called[0] if called and done.exit_code == 0 else None


def words_for(function, rng):
    words = []
    for one in _parameters(function):
        if not isinstance(one.declared, Option):
            words += rng.choices(VALUES, k=rng.choice((0, 1, 1, 1, 2)))
        elif rng.random() < 0.4:
            name, flag = rng.choice(list(one.flags()))
            if flag is not None:
                words.append(rng.choice((name, name, f"{name}=1")))
            else:
                value = rng.choice(VALUES)
                forms = [[name, value], [f"{name}={value}"], [f"{name}{value}"], [name]]
                words += rng.choices(forms, weights=(6, 3, 1, 0.3))[0]
    rng.shuffle(words)
    return words


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_words_mean_what_they_mean_to_typer(name):
    function = FUNCTIONS[name]
    try:
        _parameters(function)
    except NotPlain:
        pytest.skip("this command is left to Typer")
    rng = random.Random(name)
    for _ in range(12):
        words = words_for(function, rng)
        try:
            found = read(function, words)
        except NotPlain:
            continue
        expected = by_typer(function, words)
        assert expected is not None, words
        defaults = {
            one.name: one.default
            for one in inspect.signature(function).parameters.values()
            if one.default is not one.empty
        }
        assert defaults | found == expected, words


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("jobs", [], {}),
        ("jobs", ["-q", "a", "--json", "-s=Pending"], None),
        ("jobs", ["-qa", "-wojob"], {"queue": "a", "watch": True, "output": "job"}),
        ("jobs", ["--queue=a=b", "--", "--json"], {"queue": "a=b", "name": "--json"}),
        ("cancel", ["a", "b"], {"names": ["a", "b"]}),
        ("run", ["--gang", "3", "--", "ls", "-l"], {"gang": 3, "command": ["ls", "-l"]}),
        ("run", ["--gang", "0", "--", "ls"], None),
        ("run", ["--grace", "2m", "ls"], {"grace": 120.0, "command": ["ls"]}),
        ("run", ["-e", "A=1", "-e", "B=2", "ls"], {"env": ["A=1", "B=2"], "command": ["ls"]}),
        ("events", ["--limit", "10", "-f"], {"limit": 10, "follow": True}),
        ("jobs", ["--help"], None),
        ("jobs", ["a", "b"], None),
        ("jobs", ["--queue"], None),
        ("jobs", ["--nope"], None),
        ("cancel", [], None),
    ],
)
def test_usual_lines_are_read_and_all_others_are_left_to_typer(name, words, expected):
    function = FUNCTIONS[name]
    if expected is None and words[-1:] != ["-s=Pending"]:
        with pytest.raises(NotPlain):
            read(function, words)
        return
    found = read(function, words)
    assert found == (
        {"queue": "a", "json": True, "state": "=Pending"} if expected is None else expected
    )


HEAVY = (
    *("asyncio", "numpy", "pydantic", "rich", "typer", "yaml", "phalanx.protocol.frames"),
    *("hashlib", "logging", "pickle", "subprocess", "threading", "traceback"),
    "typing_extensions",
)
OF_SLURM = ("pathlib", "urllib")
INSPECTING = ("dataclasses", "inspect")


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("from phalanx.cli.commands import run; run(['jobs'])", ()),
        ("from phalanx.cli.commands import run; run(['nodes', '--json'])", ()),
        ("from phalanx.cli.commands import run; run(['queue', 'list'])", ()),
        ("from phalanx.cli.commands import run; run(['history'])", ()),
        (
            "from phalanx.adapters.slurm.commands.squeue import squeue; squeue([])",
            (*OF_SLURM, *INSPECTING),
        ),
        (
            "from phalanx.adapters.slurm.commands.sinfo import sinfo; sinfo([])",
            (*OF_SLURM, *INSPECTING),
        ),
        (
            "from phalanx.adapters.slurm.commands.sbatch import sbatch; "
            "sbatch(['--test-only', '--wrap', 'true'])",
            OF_SLURM,
        ),
    ],
)
def test_a_command_that_asks_imports_no_more_than_it_needs(code, heavy, tmp_path):
    """There is no cluster, so the command fails. Until then it has imported all modules that it
    needs.
    """
    asked = f"""
import sys
from phalanx.cli.quick_start import hasten
hasten()
import phalanx.runtime.daemons.visitor
try:
    {code}
except Exception as ended:
    assert type(ended).__name__ == "Ended", repr(ended)
print(sorted(sys.modules.keys() & {{*{HEAVY!r}, *{heavy!r}}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_help_page_is_drawn_without_typer(tmp_path):
    drawn = """
import sys
from phalanx.cli.commands import run
run(["--help"])
print(sorted(sys.modules.keys() & {"typer", "click", "numpy", "asyncio", "pydantic", "yaml"}))
"""
    done = subprocess.run(
        [sys.executable, "-c", drawn],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_whole_command_line_is_typers_too():
    from phalanx.cli.typer_app import app

    group: Any = typer.main.get_command(app)
    for name in ENTRIES:
        assert group.commands[name].name == name
