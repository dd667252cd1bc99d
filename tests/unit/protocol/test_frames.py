"""Frames: bytes that are split anywhere give the same messages, and anything that is not a frame
raises a ProtocolError.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.errors import ProtocolError
from phalanx.protocol import frames, framing
from phalanx.protocol.asking import Ask
from phalanx.protocol.frames import (
    LIST_HEADER,
    FrameReader,
    decode_body,
    encode_frame,
    split_frames,
)
from phalanx.protocol.framing import HEADER_BYTES
from phalanx.protocol.messages import (
    Borrow,
    Consumed,
    Done,
    Fetch,
    Function,
    Hello,
    Recall,
    Unborrow,
    Value,
)
from phalanx.protocol.node_messages import Stop

NUMBER = st.integers(0, 2**63 - 1)
PAYLOAD = st.binary(max_size=40) | st.builds(
    Value,
    kind=st.integers(0, 2),
    data=st.binary(max_size=20),
    buffers=st.lists(st.binary(max_size=10), max_size=3),
    refs=st.lists(st.tuples(st.binary(min_size=16, max_size=16), NUMBER), max_size=2),
    size=NUMBER,
)
encode = msgspec.msgpack.encode
MESSAGE = st.one_of(
    st.builds(Fetch, NUMBER),
    st.builds(Recall),
    st.builds(Consumed, NUMBER, NUMBER),
    st.builds(Borrow, st.lists(NUMBER, max_size=4)),
    st.builds(Unborrow, st.lists(st.tuples(NUMBER, NUMBER), max_size=3)),
    st.builds(Stop, st.text(max_size=10)),
    st.builds(Ask, NUMBER, NUMBER, st.lists(NUMBER, max_size=3).map(encode).map(msgspec.Raw)),
    st.builds(Done, NUMBER, PAYLOAD, st.just(0.5), st.just(1.5), st.lists(PAYLOAD, max_size=3)),
)


@given(st.lists(st.lists(MESSAGE, max_size=5), max_size=5), st.data())
def test_bytes_split_anywhere_give_the_same_messages(batches, data):
    stream = b"".join(encode_frame(batch) for batch in batches)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = FrameReader()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == [message for batch in batches for message in batch]


@given(st.binary(max_size=200))
def test_any_body_is_messages_or_a_protocol_error(body):
    try:
        messages = decode_body(body)
    except ProtocolError:
        return
    assert all(isinstance(message, msgspec.Struct) for message in messages)


@given(st.lists(MESSAGE, min_size=1, max_size=4), st.data())
def test_damaged_bytes_are_messages_or_a_protocol_error(batch, data):
    frame = bytearray(encode_frame(batch))
    at = data.draw(st.integers(HEADER_BYTES, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    try:
        messages = FrameReader().feed(bytes(frame))
    except ProtocolError:
        return
    assert all(isinstance(message, msgspec.Struct) for message in messages)


@given(st.lists(MESSAGE, min_size=1, max_size=4), st.data())
def test_a_truncated_frame_is_awaited(batch, data):
    frame = encode_frame(batch)
    reader = FrameReader()
    cut = data.draw(st.integers(0, len(frame) - 1))
    assert reader.feed(frame[:cut]) == []
    assert reader.feed(frame[cut:]) == batch


GARBAGE = {
    "a body cut short": encode_frame([Fetch(7)])[HEADER_BYTES:-1],
    "bytes after the list": encode_frame([Fetch(7)])[HEADER_BYTES:] + b"\x00",
    "no list": msgspec.msgpack.encode({"a": 1}),
    "an unknown tag": msgspec.msgpack.encode([[9999, 1]]),
    "a wrong type": msgspec.msgpack.encode([[20, "seven"]]),
    "a field too few": msgspec.msgpack.encode([[20]]),
    "a list of four thousand million": b"\xdd\xff\xff\xff\xff",
    "text that is not UTF-8": b"\x91\x94\x1e\x01\xa1\xff\x80",
    "nested without end": b"\x91\x94\x1e\x01\xa1x\x81\xa1a" + b"\x91" * 200_000,
    "a number of nine bytes too many": b"\x91\x92\x14\xcf\xff\xff",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_a_protocol_error(name):
    with pytest.raises(ProtocolError):
        decode_body(GARBAGE[name])


@pytest.mark.parametrize("length", [2**32 - 1, framing.MAX_FRAME_BYTES + 1, 17])
def test_a_length_above_the_limit_is_refused_before_its_bytes_come(length):
    reader = FrameReader(limit=min(framing.MAX_FRAME_BYTES, length - 1))
    with pytest.raises(ProtocolError, match=f"{length} bytes"):
        reader.feed(length.to_bytes(HEADER_BYTES, "big"))


def test_a_frame_of_exactly_the_limit_is_read():
    frame = encode_frame([Fetch(7)])
    reader = FrameReader(limit=len(frame) - HEADER_BYTES)
    assert reader.feed(frame) == [Fetch(7)]


def test_a_frame_above_the_limit_is_not_written(monkeypatch):
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 10)
    with pytest.raises(ProtocolError, match="above the limit of 10"):
        encode_frame([Done(1, b"x" * 20, 0.0, 0.0)])


def test_a_stranger_introduces_itself_in_a_short_frame():
    hello = encode_frame([Hello(1, b"p" * 16, "worker", 1)])
    long = encode_frame([Function(b"f", bytes(5000), "f")])
    reader = FrameReader(first_limit=1000)
    assert len(reader.feed(hello + long)) == 2
    with pytest.raises(ProtocolError, match="above the limit of 1000"):
        FrameReader(first_limit=1000).feed(long)


def test_what_is_too_much_for_one_frame_travels_in_several(monkeypatch):
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 100)
    messages: list[msgspec.Struct] = [Function(b"f", bytes(40), str(n)) for n in range(7)]
    with pytest.raises(ProtocolError):
        encode_frame(messages)
    cut, unsendable = split_frames(messages)
    assert len(cut) > 1
    assert not unsendable
    assert all(len(frame) <= 100 + HEADER_BYTES for frame in cut)
    reader = FrameReader(limit=100)
    assert [message for frame in cut for message in reader.feed(frame)] == messages


def test_a_message_at_the_limit_travels_and_one_above_it_is_named(monkeypatch):
    message = Function(b"f", bytes(40), "")
    size = len(encode([message])) - 1 + LIST_HEADER.size
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", size)
    larger = Function(b"f", bytes(41), "")
    cut, unsendable = split_frames([larger, message])
    assert FrameReader().feed(b"".join(cut)) == [message]
    assert [one.message for one in unsendable] == [larger]
    assert f"{len(encode(larger))} bytes" in unsendable[0].reason
    assert str(size) in unsendable[0].reason
