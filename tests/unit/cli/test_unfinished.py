"""The sentence that names the jobs that have not ended."""

from __future__ import annotations

import pytest

from phalanx.cli.unfinished import unfinished_text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["long"], "1 job has not ended: long."),
        (["a", "b"], "2 jobs have not ended: a, b."),
        (list("abcdefg"), "7 jobs have not ended: a, b, c, d, e and 2 more."),
    ],
)
def test_the_first_jobs_are_named(names: list[str], text: str) -> None:
    assert unfinished_text(names) == text
