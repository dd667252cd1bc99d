"""The code blocks of all pages keep their lines: no command or statement runs into another line."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md"))
)
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COMMAND = r"(?:phalanx [a-z-]+|make [a-z-]+|\.venv/bin/python -m)(?: |$)"
_JOINED = re.compile(rf"#.* {_COMMAND}|# .* sudo$|^(?!sudo )[^#]*\w {_COMMAND}.*#")
"""A command in a comment (a comment writes the names of commands in backticks), or a command with a
comment after other words, as after lines were joined.
"""


def blocks(page: str, languages: set[str]) -> list[str]:
    text = (ROOT / page).read_text()
    return [code for _, language, code in _BLOCK.findall(text) if language in languages]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_are_python(page: str) -> None:
    for code in blocks(page, {"python"}):
        lines = textwrap.dedent(code)
        # a block may show decorators alone
        ends = "def f(): ...\n" if lines.rstrip().splitlines()[-1].startswith("@") else ""
        compile(lines + ends, page, "exec", _FLAGS)


@pytest.mark.parametrize("page", PAGES)
def test_a_line_of_a_shell_block_has_one_command(page: str) -> None:
    for code in blocks(page, {"", "sh", "bash", "console"}):
        assert [line for line in code.splitlines() if _JOINED.search(line)] == []
