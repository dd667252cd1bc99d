"""Code blocks in pages keep their lines: programs parse, and each line of commands begins with a
command.

Calls of `phalanx` use keywords that exist.

The test finds pages whose code blocks were wrapped like paragraphs, which joins commands with
comments.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator

import pytest
from tests.docs.programs import ROOT

import phalanx

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
"""The first words of the commands in pages. If a page begins to use another command, add it
here.
"""
SET = re.compile(r"[A-Z_]+=")
"""Matches the beginning of a word that sets a variable for one command, as in `NAME=value command`.
"""
_COMMAND = r"(?:phalanx [a-z-]+|make [a-z-]+|\.venv/bin/python -m)(?: |$)"
JOINED = re.compile(rf"#.* {_COMMAND}|# .* sudo$|^(?!sudo )[^#]*\w {_COMMAND}.*#")
"""Matches lines that were joined by mistake: a command in a comment (comments write the names of
commands in backticks), or a command that follows other words and has a comment after it.
"""


def blocks_of(text: str) -> list[tuple[str, str]]:
    """[(language, lines)] of a page's blocks."""
    return [(kind, textwrap.dedent(body)) for _, kind, body in BLOCK.findall(text)]


def is_of_commands(kind: str, body: str) -> bool:
    """Whether a block consists of commands only. If its first line is a command with a comment, the
    block need not name its language.
    """
    first = body.partition("\n")[0]
    return kind in ("sh", "bash") or (
        not kind and first.partition(" ")[0] in COMMANDS and "  # " in first
    )


def commands_in(body: str) -> Iterator[list[str]]:
    """Yield the words of each command. A command may continue over several lines."""
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


def unknown_keywords(tree: ast.AST) -> list[str]:
    """Return the keywords in calls of `phalanx.NAME(...)` that the function does not take."""
    faults = []
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            continue
        if not (isinstance(call.func.value, ast.Name) and call.func.value.id == "phalanx"):
            continue
        taken = inspect.signature(getattr(phalanx, call.func.attr)).parameters
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values()):
            continue
        names = [one.arg for one in call.keywords if one.arg]
        faults += [f"phalanx.{call.func.attr}({n}=...)" for n in names if n not in taken]
    return faults


def faults_in(text: str) -> list[str]:
    """Return what is wrong in the blocks of a page: programs that do not parse, lines that were
    joined, and commands whose first word is unknown.
    """
    faults = []
    for kind, body in blocks_of(text):
        if kind in ("python", "py"):
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            try:
                tree = compile(body, "page", "exec", flags)
            except SyntaxError as error:
                faults.append(f"{error}: {body}")
            else:
                faults += unknown_keywords(tree)
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
        "```py\njob = phalanx.Job('python train.py', gpus=1)\n```\n",
    ],
)
def test_a_faulty_block_is_found(block: str) -> None:
    assert faults_in(block)
