"""Finds sentences that read as a translation, and words that docs/glossary.md has retired.

It reads documents, and of Python files the comments, docstrings and texts of at least three words.
Each pattern below is a form that readers had to read twice; the message says what to write instead.

    python tools/prose.py [FILE ...]      ends with 1 when something is found
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
MAX_COLUMNS = 100
FOLDERS = ("src/", "benchmarks/", "research/", "tests/", "tools/", "docs/", "examples/")
DOCUMENTS = ("README.md", "CONTRIBUTING.md")
NOT_READ = ("docs/glossary.md", "tools/prose.py", "tests/unit/tools/test_prose.py")
"""Files that are not read, because they must contain the forms and words that are forbidden."""

START = r"(?:^|(?<=[.:;!?] )|(?<=\n\n))[*_`\"(]*"
PATTERNS = [
    (
        re.compile(START + r"(?:Who|Whoever|Whom|Whose) [a-z]"),
        "name the subject: 'A reader that …'",
    ),
    (re.compile(START + r"What(?:ever)? [a-z]"), "name the thing: 'The files that …'"),
    (
        re.compile(START + r"Of (?:an?|the|this|that|these|those|what|whom|it|them|all|each) "),
        "subject first: 'The parts of a …'",
    ),
    (
        re.compile(START + r"So (?:is|are|was|were|does|did|can|may|has) [a-z]"),
        "subject first: 'A … is …, too'",
    ),
    (
        re.compile(r"^(?:(?:The )?(?:\w+ ){1,2}of (?:them|those|these)|(?:That|Those) [a-z ]+)\.$"),
        "name the thing: a text of its own has no word to which a pronoun could refer",
    ),
    (re.compile(r"\b(?:is|are|was|were) told (?:on|with)\b"), "'is reported', 'is printed'"),
    (re.compile(r"\b[Ss]o many\b"), "say the number, or 'how many', or 'that many'"),
    (re.compile(r"\bof ours\b"), "say whose: 'this package's', 'Phalanx's'"),
    (re.compile(r"\bis there\b(?! (?:a|an|any|no)\b)"), "'there is …', or 'exists'"),
    (re.compile(r"\b(?:for|by|of|from|than|as) who\b"), "'for people who', 'by the process that'"),
    (re.compile(r"^See [A-Z]\w+\.$"), "say what it means, or drop the method that only forwards"),
]
"""Pairs: a form that must not be used, and what to write instead."""


class Text(NamedTuple):
    """A piece of prose and the line where it begins."""

    line: int
    text: str


class Finding(NamedTuple):
    """One place to rewrite."""

    path: str
    line: int
    words: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words!r}: {self.advice}"


def retired_words(glossary: str) -> dict[str, str]:
    """Return the retired words of the glossary, each with the word that has taken its place.

    >>> retired_words("| head | decides | Ray | control store, control plane |")
    {'control store': 'head', 'control plane': 'head'}
    """
    found = {}
    for line in glossary.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and not is_head_row(cells[3]):
            found.update({old.strip(): cells[0] for old in cells[3].split(",")})
    return found


def is_head_row(cell: str) -> bool:
    """Whether a cell of the last column has no word: it is empty, the column's title, or the line
    below the title.
    """
    return cell == "retired" or not cell.strip("-")


def retired_pattern(word: str) -> re.Pattern[str]:
    """Return a pattern that matches a retired word in prose, and in names of any style."""
    parts = [re.escape(part) for part in word.split()]
    return re.compile(r"(?<![a-z])" + r"[ _-]?".join(parts) + "s?(?![a-z])", re.IGNORECASE)


def texts_of_python(source: str) -> Iterator[Text]:
    """Yield the comments, docstrings and other texts of a Python file."""
    block: list[str] = []
    at = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            at = at or token.start[0]
            block.append(token.string.lstrip("#").strip())
        elif token.type != tokenize.NL and block:
            yield Text(at, " ".join(block))
            block, at = [], 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.strip()
            if len(text.split()) >= 3 or text.startswith("See "):
                yield Text(node.lineno, text)


def texts_of_markdown(source: str) -> Iterator[Text]:
    """Yield the paragraphs and list items of a document, without code blocks."""
    block: list[str] = []
    at, is_code = 0, False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
            line = ""
        if is_code:
            continue
        begins = re.match(r"\s*(?:[-*]|\d+\.|#+|>)\s+(.*)|\|\s*(.*)", line)
        if block and (begins or not line.strip()):
            yield Text(at, " ".join(block))
            block = []
        if line.strip():
            at = at if block else number
            block.append((begins.group(1) or begins.group(2) or "") if begins else line.strip())


def long_lines(source: str) -> Iterator[Text]:
    """Yield the lines of a document's paragraphs that have more than MAX_COLUMNS columns. Tables
    and code may be wider.
    """
    is_code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        may_be_wide = is_code or line.lstrip().startswith(("|", "<!--", "[")) or "](" in line
        if len(line) > MAX_COLUMNS and not may_be_wide and " " in line[: MAX_COLUMNS + 1].strip():
            yield Text(number, line[:40])


def is_question(text: str, at: int) -> bool:
    """Whether the sentence that begins at this place ends with a question mark."""
    end = re.search(r"[.!?](?:\s|$)", text[at:])
    return end is not None and end.group().startswith("?")


def findings(path: str, source: str, retired: dict[str, str]) -> Iterator[Finding]:
    """Yield all places of a file that should be rewritten."""
    is_document = path.endswith(".md")
    texts = texts_of_markdown(source) if is_document else texts_of_python(source)
    for line, text in texts:
        for pattern, advice in PATTERNS:
            for match in pattern.finditer(text):
                if not is_question(text, match.start()):
                    shown = text[match.start() : match.start() + 50]
                    number = line + text.count("\n", 0, match.start())
                    yield Finding(path, number, shown, advice)
    for old, new in retired.items():
        for match in retired_pattern(old).finditer(source):
            number = source.count("\n", 0, match.start()) + 1
            yield Finding(path, number, match.group(), f"write {new!r} (docs/glossary.md)")
    if is_document:
        for line, text in long_lines(source):
            yield Finding(path, line, text, f"more than {MAX_COLUMNS} columns")


def files(given: Iterable[str]) -> list[str]:
    """Return the files to read: those that are given or, if none is, all that git tracks in FOLDERS
    and DOCUMENTS.
    """
    listed = list(given)
    if not listed:
        words = ["git", "-C", str(ROOT), "ls-files", "*.py", "*.md"]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        listed = output.splitlines()
    return [
        path
        for path in listed
        if (path.startswith(FOLDERS) or path in DOCUMENTS) and path not in NOT_READ
    ]


def main(given: list[str]) -> int:
    """Print all findings. Returns the exit code: 1 if there are any."""
    retired = retired_words(GLOSSARY.read_text(encoding="utf-8"))
    found = [
        finding
        for path in files(given)
        for finding in findings(path, (ROOT / path).read_text(encoding="utf-8"), retired)
    ]
    for finding in sorted(found):
        print(finding)
    print(f"{len(found)} places to rewrite")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
