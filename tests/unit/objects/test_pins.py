"""Pins: copies that stay until their readers have mapped them."""

from __future__ import annotations

from phalanx.objects.pins import MAX_PIN_S, Pins


def new_pins():
    released: list[None] = []
    return Pins(lambda: released.append(None)), released


def test_a_copy_is_pinned_until_all_who_asked_have_mapped_it():
    pins, released = new_pins()
    pins.add("o", 10, b"a", 0.0)
    pins.add("o", 10, b"b", 0.0)
    pins.done("o", b"a")
    pins.done("o", b"a")
    pins.done("o", b"c")
    assert ("o" in pins, pins.total_bytes, released) == (True, 10, [])
    pins.done("o", b"b")
    assert ("o" in pins, pins.total_bytes, released) == (False, 0, [None])


def test_two_threads_of_a_process_ask_twice_and_map_twice():
    pins, _ = new_pins()
    pins.add("o", 10, b"a", 0.0)
    pins.add("o", 10, b"a", 0.0)
    pins.done("o", b"a")
    assert "o" in pins
    pins.done("o", b"a")
    assert "o" not in pins


def test_who_ends_pins_nothing_any_more():
    pins, released = new_pins()
    pins.add("its own", 10, b"a", 0.0)
    pins.add("another's too", 10, b"a", 0.0)
    pins.add("another's too", 10, b"b", 0.0)
    pins.process_gone(b"a")
    assert ("its own" in pins, "another's too" in pins) == (False, True)
    assert (pins.total_bytes, released) == (10, [None])


def test_who_takes_too_long_is_not_waited_for_from_the_last_who_asked():
    pins, released = new_pins()
    pins.add("o", 10, b"a", 0.0)
    pins.add("o", 10, b"b", MAX_PIN_S / 2)
    pins.tick(MAX_PIN_S)
    assert "o" in pins
    pins.tick(MAX_PIN_S * 1.5)
    assert ("o" in pins, released) == (False, [None])


def test_a_copy_that_goes_is_not_pinned():
    pins, released = new_pins()
    pins.add("o", 10, b"a", 0.0)
    pins.unpin("o")
    pins.unpin("o")
    assert (len(pins), pins.total_bytes, released) == (0, 0, [None])
