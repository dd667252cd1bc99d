"""The line of each key of a TOML file."""

from __future__ import annotations

import pytest

from phalanx.cli.configuration.lines import SyntaxFault, key_lines, read_toml

FILE = '''# a file
[start]  # a table
num_cpus = 4

labels = [
  "zone=a", # one
  "rack=r1",
]
limit.misses = 7
text = """
port = 1
"""
history = { days = 90, records = 10 }

[start.deep]
x = 1
[[others]]
y = 2
'''


def test_each_key_has_the_line_on_which_it_begins() -> None:
    found = key_lines(FILE)
    assert found == {
        ("start",): 2,
        ("start", "num_cpus"): 3,
        ("start", "labels"): 5,
        ("start", "limit"): 9,
        ("start", "limit", "misses"): 9,
        ("start", "text"): 10,
        ("start", "history"): 13,
        ("start", "history", "days"): 13,
        ("start", "history", "records"): 13,
        ("start", "deep"): 15,
        ("start", "deep", "x"): 16,
        ("others",): 17,
        ("others", "y"): 18,
    }
    assert key_lines(FILE.replace("\n", "\r\n")) == found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb = \n", 2),
        ("[start]\nhead = true\nhead = false\n", 3),
        ("[start]\n\nlabels = [1,\n", 3),
        ("x", 1),
    ],
)
def test_a_syntax_fault_names_its_line(text: str, line: int) -> None:
    with pytest.raises(SyntaxFault) as raised:
        read_toml(text)
    assert raised.value.line == line
    assert "line" not in str(raised.value)
