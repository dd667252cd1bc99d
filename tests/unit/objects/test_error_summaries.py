"""The one line that listings show for an exception."""

from __future__ import annotations

import pytest

from phalanx.errors import TaskError
from phalanx.objects.failures import SUMMARY_CHARS, summary


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("loss is NaN\nat step 3"), "ValueError: loss is NaN"),
        (KeyError("a"), "KeyError: 'a'"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("x" * 1_000), ("RuntimeError: " + "x" * 1_000)[:SUMMARY_CHARS]),
    ],
)
def test_a_summary_has_the_class_and_the_first_line(error, said):
    assert summary(error) == said


def test_the_failure_of_a_dependency_is_told_as_its_own_exception():
    text = "Traceback (most recent call last):\n  ...\nOSError: the disk is full\n"
    assert summary(TaskError("load", text, None)) == "OSError: the disk is full"


def test_an_exception_without_text_is_told_by_its_class():
    assert "Mute" in summary(Mute())
