"""Rules of ignore files are read as git reads them. Each row was compared with git's own answer."""

from __future__ import annotations

import pytest

from phalanx.model.ignoring import Rule, is_ignored, read_rules

CASES = """
*.log             a.log x/b.log             | a.log.gz
/a                a a/b                     | x/a
b/                b/f x/b/f                 | b x/b
x/*.py            x/q.py                    | z/x/q.py x/y/q.py
**/d              d x/d x/d/e               | da
d/**              d/e d/e/f                 | d
a/**/c            a/c a/1/c a/1/2/c         | c x/a/c
[ab].txt          a.txt x/b.txt             | c.txt
[!a].txt          b.txt                     | a.txt
\\#x              #x                        | x
foo?              foo1                      | foo foo12
a*b               axb                       | a/b
[a-               -                         | [a- a
[z-a]             -                         | z a
# comment         -                         | comment #
*.log,!keep.log   a.log                     | keep.log x/keep.log
b/,!b/keep        b/keep                    | keep
!a,a              a                         | b
x/**,!x/**/,!*.py  x/a x/y/z.txt             | x/a.py x/y/z.py
"""


def left_out(path: str, rules: list[Rule]) -> bool:
    parts = path.split("/")
    return any(
        is_ignored("/".join(parts[:count]), count < len(parts), rules)
        for count in range(1, len(parts) + 1)
    )


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_patterns_leave_out_what_git_leaves_out(case):
    out, _, kept = case.partition("|")
    patterns, _, paths = out.partition("  ")
    ignored = paths.split()
    rules = read_rules(patterns.strip().replace("\\\\", "\\").split(","))
    assert [path for path in ignored if path != "-" and not left_out(path, rules)] == []
    assert [path for path in kept.split() if left_out(path, rules)] == []


def test_an_ignore_file_concerns_its_own_directory():
    rules = read_rules(["/a", "*.log"], "x")
    assert [p for p in ("a", "x/a", "a.log", "x/a.log", "x/y/a.log") if left_out(p, rules)] == [
        "x/a", "x/a.log", "x/y/a.log",
    ]  # fmt: skip
