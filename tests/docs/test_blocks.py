"""Blocks in pages keep their lines: programs parse, and each line of commands begins with one.

A page that is filled anew as if its blocks were paragraphs would join commands with comments.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from collections.abc import Iterator

import pytest
from tests.docs.programs import ROOT

FOLDERS = ("docs", "src", "tools", "examples", "findings", "research", "benchmarks")
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [*ROOT.glob("*.md"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md"))]
)
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
COMMANDS = frozenset(
    [
        *("cat", "cd", "curl", "echo", "export", "git", "install", "make", "mkdir", "phalanx"),
        *("pip", "python", "python3", "ray", "sacct", "sbatch", "scancel", "scp", "srun", "squeue"),
        *("sudo", "torchrun", "torchx", "useradd", ".venv/bin/python", "/usr/bin/python3"),
    ]
)
"""The first words of the commands in pages. Add a command here that a page begins to use."""
SET = re.compile(r"[A-Z_]+=")
"""A variable that is set for one command."""
_COMMAND = r"(?:phalanx [a-z-]+|make [a-z-]+|\.venv/bin/python -m)(?: |$)"
JOINED = re.compile(rf"#.* {_COMMAND}|# .* sudo$|^(?!sudo )[^#]*\w {_COMMAND}.*#")
"""A command in a comment (a comment writes the names of commands in backticks), or a command with a
comment after other words, as after lines were joined.
"""


def blocks_of(text: str) -> list[tuple[str, str]]:
    """[(language, lines)] of a page's blocks."""
    return [(kind, textwrap.dedent(body)) for _, kind, body in BLOCK.findall(text)]


def is_of_commands(kind: str, body: str) -> bool:
    """Whether a block consists of commands alone; one with comments need not say its language."""
    first = body.partition("\n")[0]
    return kind in ("sh", "bash") or (
        not kind and first.partition(" ")[0] in COMMANDS and "  # " in first
    )


def commands_in(body: str) -> Iterator[list[str]]:
    """Yield the words of each command, which may go on over lines."""
    command = ""
    for line in body.splitlines():
        command += line + "\n"
        if line.endswith("\\"):
            continue
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            continue  # a quotation goes on in the next line
        command = ""
        if words:
            yield words
    assert not command, f"a quotation has no end: {command}"


def faults_in(text: str) -> list[str]:
    """Return the programs of a page that do not parse, and the commands that begin with none."""
    faults = []
    for kind, body in blocks_of(text):
        if kind == "python":
            try:
                compile(body, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            except SyntaxError as error:
                faults.append(f"{error}: {body}")
        elif kind in ("", "sh", "bash", "console"):
            faults += [line for line in body.splitlines() if JOINED.search(line)]
            if is_of_commands(kind, body):
                faults += [
                    " ".join(words)
                    for words in commands_in(body)
                    if words[0] not in COMMANDS and not SET.match(words[0])
                ]
    return faults


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_keep_their_lines(page: str) -> None:
    assert faults_in((ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "block",
    [
        "```sh\npip install .     # in a checkout make run    # a demonstration: search\n"
        "parameters and train\n```\n",
        "```\nphalanx dashboard --record run.journal   # until Ctrl-C phalanx dashboard\n"
        "--from run.journal    # later\n```\n",
        "```console\n$ make setup     # makes .venv make test     # all quick tests\n```\n",
        "```python\ndef step(self, batch): gradients = batch reduce(gradients,\n    1)\n```\n",
    ],
)
def test_a_block_that_was_filled_anew_is_found(block: str) -> None:
    assert faults_in(block)
