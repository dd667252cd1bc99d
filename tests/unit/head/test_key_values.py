"""Bytes that programs store at the head: how they are read, what is left after a restart, and what
is too much.
"""

from __future__ import annotations

import pytest

from phalanx.errors import MessageTooLargeError, StoreFullError
from phalanx.head import key_values
from phalanx.protocol.requests.key_values import DeleteValues, GetValue, ListKeys, PutValue

from .test_asked_again import Asking
from .test_full_store import Place


@pytest.fixture
def place() -> Asking:
    made = Asking()
    made.joins()
    return made


def put(key: bytes, value: bytes, overwrite: bool = True) -> PutValue:
    return PutValue(b"space", key, value, overwrite)


def get(key: bytes) -> GetValue:
    return GetValue(b"space", key)


def keys(place: Place) -> list[bytes]:
    found: list[bytes] = place.answer(ListKeys(b"space", b""))
    return found


def test_a_value_is_there_under_its_namespace_and_key(place):
    assert place.answer(put(b"k", b"1")) is False
    assert place.answer(get(b"k")) == b"1"
    assert place.answer(GetValue(b"other", b"k")) is None
    assert place.answer(GetValue(b"spac", b"ek")) is None


def test_a_value_that_is_there_stays_unless_it_may_be_overwritten(place):
    place.answer(put(b"k", b"1"))
    assert place.answer(put(b"k", b"2", overwrite=False)) is True
    assert place.answer(get(b"k")) == b"1"
    assert place.answer(put(b"k", b"2")) is True
    assert place.answer(get(b"k")) == b"2"


def test_keys_are_found_and_deleted_by_how_they_begin(place):
    for key in (b"a1", b"a2", b"b"):
        place.answer(put(key, b""))
    assert place.answer(ListKeys(b"space", b"a")) == [b"a1", b"a2"]
    assert place.answer(DeleteValues(b"space", b"a", is_prefix=False)) == 0
    assert place.answer(DeleteValues(b"space", b"a", is_prefix=True)) == 2
    assert keys(place) == [b"b"]


def test_the_next_head_knows_what_was_kept_and_not_what_was_deleted(place):
    for key in (b"a", b"b", b"c"):
        place.answer(put(key, key * 2))
    place.answer(put(b"c", b"new"))
    place.answer(DeleteValues(b"space", b"a", is_prefix=False))
    later = Place(place.disk)
    later.joins()
    assert {key: later.answer(get(key)) for key in keys(later)} == {b"b": b"bb", b"c": b"new"}


def test_a_first_put_that_is_asked_again_was_the_first(place):
    request = put(b"k", b"1", overwrite=False)
    assert place.answer(request) is False
    assert place.answer_again(request) is False
    assert place.answer_again(put(b"k", b"2", overwrite=False)) is True


def test_a_full_store_takes_no_values_and_gives_and_deletes_those_that_it_has(place):
    place.answer(put(b"k", b"1"))
    place.is_short(is_stalled=False)
    with pytest.raises(StoreFullError):
        place.answer(put(b"k", b"2"))
    assert place.answer_again(put(b"k", b"1")) is True
    assert place.answer(get(b"k")) == b"1"
    assert place.answer(DeleteValues(b"space", b"k", is_prefix=False)) == 1


def test_a_value_is_as_large_as_the_limit_and_no_larger(place, monkeypatch):
    monkeypatch.setattr(key_values, "VALUE_BYTES", 1000)
    most = 1000 - len(b"space") - len(b"k")
    place.answer(put(b"k", bytes(most)))
    with pytest.raises(MessageTooLargeError, match=r"'k' has 1001 bytes .* at most 1000 are kept"):
        place.answer(put(b"k", bytes(most + 1)))
    assert len(place.answer(get(b"k"))) == most


def test_all_values_together_are_as_large_as_the_limit_and_what_goes_makes_room(place, monkeypatch):
    size = key_values.KEY_BYTES + len(b"space") + 1 + 100
    monkeypatch.setattr(key_values, "TABLE_BYTES", 2 * size)
    place.answer(put(b"a", bytes(100)))
    place.answer(put(b"b", bytes(100)))
    place.answer(put(b"b", b"x" * 100))
    with pytest.raises(MessageTooLargeError, match=f"would have {2 * size + 1} bytes: at most"):
        place.answer(put(b"b", bytes(101)))
    with pytest.raises(MessageTooLargeError):
        place.answer(put(b"c", b""))
    place.answer(DeleteValues(b"space", b"a", is_prefix=False))
    place.answer(put(b"c", bytes(100)))
    later = Place(place.disk)
    later.joins()
    with pytest.raises(MessageTooLargeError):
        later.answer(put(b"d", b""))


def test_a_key_is_shown_without_what_a_terminal_would_obey(place, monkeypatch):
    monkeypatch.setattr(key_values, "VALUE_BYTES", 10)
    with pytest.raises(MessageTooLargeError) as caught:
        place.answer(put(b"\x1b[2J\xff" + b"k" * 100, b""))
    assert "\x1b" not in str(caught.value)
    assert "'\\x1b[2J\\xffkkk" in str(caught.value)
    assert len(str(caught.value)) < 300
