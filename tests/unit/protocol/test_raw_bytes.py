"""Bytes in arguments, variables and paths that are not UTF-8 are transmitted unchanged."""

from __future__ import annotations

import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from phalanx.cli.table import safe
from phalanx.model.raw_bytes import all_native, all_writable, encoded, native, writable
from phalanx.protocol.cluster_messages import NodeDied
from phalanx.protocol.fork_messages import RunCommand
from phalanx.protocol.frames import decode_body, encode_body, encode_frame, split_frames
from phalanx.protocol.requests.jobs import GetJob
from phalanx.protocol.requests.request import decode_request, encode_request

ODD = os.fsdecode(b"a\xff\x80b")


@given(hs.binary().filter(lambda data: b"\0" not in data))
def test_any_bytes_come_out_as_they_were(data):
    text = writable(os.fsdecode(data))
    assert os.fsencode(native(text)) == data
    assert writable(text) == text
    assert msgspec.json.decode(msgspec.json.encode(text)) == text
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(text)) == text


def test_every_text_of_a_message_is_changed_as_deep_as_it_stands():
    order = RunCommand(b"\xff", ["sh", ODD], {ODD: ODD}, ODD, "log", 0)
    sent = msgspec.msgpack.decode(encoded(msgspec.msgpack.encode, order), type=RunCommand)
    assert ODD not in sent.argv
    assert sent == all_writable(order)
    assert all_native(sent) == order


@pytest.mark.parametrize(
    "value",
    [[], {}, ["a", ODD], ["a", 1], ["a", None, ODD], {ODD: "a"}, {"a": ODD}, {"a": 1}, {1: ODD}],
)
def test_lists_and_dicts_of_anything_come_out_as_they_were(value):
    assert all_native(all_writable(value)) == value
    assert ODD not in str(all_writable(value))


def test_frames_and_requests_take_them():
    died = NodeDied(b"p" * 6, "n1", ODD)
    [sent] = decode_body(encode_body([died]))
    assert all_native(sent) == died
    frames, unsendable = split_frames([died])
    assert (len(frames), unsendable) == (1, [])
    assert encode_frame([died]) is not None
    assert native(decode_request(GetJob, encode_request(GetJob(ODD))).name) == ODD


@pytest.mark.parametrize("text", [ODD, writable(ODD)])
def test_people_see_the_bytes(text):
    assert safe(text) == "a\\xff\\x80b"
