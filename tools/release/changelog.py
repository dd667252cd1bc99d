"""Folds the fragments of `changelog.d` into CHANGELOG.md: `make changelog`.

The section of the version gets the items of all fragments, by kind and topic, and its date; the
fragments are deleted. A topic is found by the words of an item.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH = 100
KINDS = ("added", "changed", "fixed", "removed")
TOPICS = (
    ("Operation", r"phalanx (?:install|backup|restore|config|doctor|start --block)\b|/healthz"),
    (
        "Slurm's commands",
        r"Slurm|\bs(?:batch|queue|run|cancel|acct|info|alloc|prio|share|control)\b",
    ),
    ("The web page", r"\b[Pp]age\b|dashboard|\bmap of GPUs|\bcards?\b"),
    ("People and rights", r"rights|roles?\b|tokens?\b|set-limits|`--shared`|\bowner of a job"),
    ("Jobs", r"\bjobs?\b|\barrays?\b|\bgangs?\b|\bmembers?\b|phalanx (?:run|jobs|plan|explain)\b"),
    ("Nodes and the head", r"\bnodes?\b|\bhead\b|\bgateway\b|phalanx start|doctor|GPU|device"),
    ("Tasks and actors", r"\btasks?\b|\bactors?\b|\bworkers?\b|\bcalls?\b|\bobjects?\b"),
    ("More", r""),
)
"""The topics in their order, each with a pattern; an item belongs to the first that matches."""
_ITEM = re.compile(r"^- ", re.MULTILINE)


def items_of(text: str) -> list[str]:
    """Return the items of a fragment as wrapped list items of CHANGELOG.md."""
    parts = _ITEM.split(text.strip())
    return [_wrapped(" ".join(part.split())) for part in parts if part.strip()]


def _wrapped(item: str) -> str:
    return textwrap.fill(
        item, WIDTH, initial_indent="- ", subsequent_indent="  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def topic_of(item: str) -> str:
    """Return the topic of an item."""
    words = " ".join(item.split())
    return next(topic for topic, pattern in TOPICS if re.search(pattern, words, re.IGNORECASE))


def fold(changelog: str, fragments: Iterable[tuple[str, str]], version: str, date: str) -> str:
    """Return the change log after the fragments were added to the section of `version`.
    `fragments`: pairs (kind, text).

    A missing section, kind or topic is added. Raises ValueError for an unknown kind.
    """
    sections = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)
    title = f"## {version} ({date})\n"
    place = next((n for n, one in enumerate(sections) if one.startswith(f"## {version} ")), None)
    if place is None:
        place = next(
            (n for n, one in enumerate(sections) if re.match(r"## \d", one)), len(sections)
        )
        sections.insert(place, title + "\n")
    head, *kinds = re.split(r"^(?=### )", sections[place], flags=re.MULTILINE)
    texts = {re.sub(r"\W", "", one.splitlines()[0]).lower(): one for one in kinds}
    for kind, text in fragments:
        if kind not in KINDS:
            raise ValueError(f"no kind of change is called {kind!r}; the kinds are {KINDS}")
        before = texts.get(kind, f"### {kind.capitalize()}\n")
        for item in items_of(text):
            before = _with_item(before, item)
        texts[kind] = before
    body = "\n\n".join(texts[kind].strip() for kind in KINDS if kind in texts)
    note = head.partition("\n")[2].strip()
    sections[place] = "\n".join(filter(None, [title, note and note + "\n", body, ""])) + "\n"
    return "".join(sections).rstrip() + "\n"


def _with_item(kind: str, item: str) -> str:
    """Return the text of a kind, with an item added at the end of its topic. A missing topic is
    added, too.
    """
    heading = f"**{topic_of(item)}**"
    groups = re.split(r"^(?=\*\*[^*\n]+\*\*$)", kind, flags=re.MULTILINE)
    for number, group in enumerate(groups):
        if group.startswith(heading + "\n"):
            groups[number] = f"{group.rstrip()}\n{item}\n\n"
            return "".join(groups)
    return f"{kind.rstrip()}\n\n{heading}\n{item}\n\n"


def main() -> int:
    """Fold the fragments of the repository."""
    reader = argparse.ArgumentParser(description=main.__doc__)
    reader.add_argument("--version", required=True, help="version to release, such as 0.2.0")
    reader.add_argument("--date", required=True, help="date of the release, such as 2027-01-31")
    reader.add_argument("--dry-run", action="store_true", help="print the result, change nothing")
    given = reader.parse_args()
    if not re.fullmatch(r"\d+\.\d+\.\d+", given.version):
        reader.error(f"a version is MAJOR.MINOR.PATCH, not {given.version}")
    files = sorted(path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md")
    fragments = [(path.name.split(".")[-2], path.read_text(encoding="utf-8")) for path in files]
    target = ROOT / "CHANGELOG.md"
    text = fold(target.read_text(encoding="utf-8"), fragments, given.version, given.date)
    if given.dry_run:
        sys.stdout.write(text)
        return 0
    target.write_text(text, encoding="utf-8")
    for path in files:
        path.unlink()
    print(f"{len(files)} fragments are in CHANGELOG.md, under {given.version}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
