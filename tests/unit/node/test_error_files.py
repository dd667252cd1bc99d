"""The files in which members write why they failed, and how the node reports them."""

from __future__ import annotations

import json

import pytest

from phalanx.node.error_files import MESSAGE_CHARACTERS, message_in


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"message": {"message": "ValueError: bad", "extraInfo": {}}}, "ValueError: bad"),
        ({"message": "RuntimeError: worse"}, "RuntimeError: worse"),
        ({"message": {"message": "E: two\n  lines \x1b[31mred"}}, "E: two lines [31mred"),
        ({"message": {"message": {"message": "too deep"}}}, ""),
        ({"message": 3}, ""),
        ({}, ""),
        (["message"], ""),
    ],
)
def test_the_message_of_a_file(found, told):
    assert message_in(json.dumps(found).encode()) == told


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_such_file_says_nothing(data):
    assert message_in(data) == ""


def test_a_long_message_is_cut():
    told = message_in(json.dumps({"message": "x" * 1000}).encode())
    assert (len(told), told[-3:]) == (MESSAGE_CHARACTERS, "...")
