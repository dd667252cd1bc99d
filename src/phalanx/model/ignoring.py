"""Rules of ignore files, as in .gitignore, which say what files of a directory are left out of a
package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_NOTHING = "(?!)"


class Rule(NamedTuple):
    """One pattern. `is_negated`: whether the paths that it matches are kept, although an earlier
    rule leaves them out.
    """

    pattern: re.Pattern[str]
    is_negated: bool
    only_directories: bool


def read_rules(lines: Iterable[str], below: str = "") -> list[Rule]:
    """Return the rules in the lines of an ignore file. `below`: the directory of the file within
    the package ("" for the package's top). As in git, lines that are no pattern are ignored.
    """
    found = []
    for line in lines:
        text = re.sub(r"(?<!\\)\s+$", "", line.rstrip("\n"))
        if not text or text.startswith("#"):
            continue
        is_negated = text.startswith("!")
        text = text[1:] if is_negated else text
        text = text[1:] if text.startswith(("\\#", "\\!")) else text
        only_directories = text.endswith("/")
        text = text.rstrip("/")
        if not text:
            continue
        is_anchored = "/" in text
        start = re.escape(f"{below}/") if below else ""
        start += "" if is_anchored else "(?:.*/)?"
        try:
            pattern = re.compile(start + _regex(text.lstrip("/")) + r"\Z", re.DOTALL)
        except re.error:  # such as a range of characters that ends before it begins
            continue
        found.append(Rule(pattern, is_negated, only_directories))
    return found


def _regex(glob: str) -> str:
    out, at = [], 0
    while at < len(glob):
        if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
            out.append("(?:.*/)?")
            at += 3
        elif glob[at:] == "**" and (at == 0 or glob[at - 1] == "/"):
            out.append(".+")
            at += 2
        elif glob[at] == "*":
            out.append("[^/]*")
            at += 1
        elif glob[at] == "?":
            out.append("[^/]")
            at += 1
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) < 0:
            return _NOTHING
        elif glob[at] == "[":
            inner = glob[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            inner = f"^{inner[1:]}" if inner[0] in "!^" else inner
            out.append(f"(?!/)[{inner}]")
            at = end + 1
        else:
            at += glob[at] == "\\" and at + 1 < len(glob)
            out.append(re.escape(glob[at]))
            at += 1
    return "".join(out)


def is_ignored(path: str, is_directory: bool, rules: Sequence[Rule]) -> bool:
    """Whether a path is left out: the last rule that matches the path decides. If a directory is
    left out, all of its content is left out, too, and the caller must not ask about that content.
    """
    for rule in reversed(rules):
        if (is_directory or not rule.only_directories) and rule.pattern.match(path):
            return not rule.is_negated
    return False
