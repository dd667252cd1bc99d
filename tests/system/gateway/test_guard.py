"""How often an address may fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.runtime.gateway.guard import FAILURES, WINDOW_S, Guard, origin


def test_twenty_failures_a_minute_then_none():
    guard = Guard()
    for n in range(FAILURES):
        assert guard.admits("a", float(n))
        guard.failed("a", float(n))
    assert not guard.admits("a", 20.0)
    assert guard.admits("b", 20.0), "others are not concerned"
    assert guard.report() == {"a": FAILURES + 1}
    assert guard.report() == {}
    assert not guard.admits("a", WINDOW_S - 0.1)
    assert guard.admits("a", WINDOW_S), "the first failure is a minute old"
    guard.failed("a", WINDOW_S)
    assert not guard.admits("a", WINDOW_S + 0.5)


@given(st.lists(st.integers(0, 50_000), max_size=100))
def test_memory_is_bounded(extra):
    guard = Guard()
    for number in [*range(6000), *extra]:
        guard.failed(str(number), 0.0)
    assert len(guard._failures) <= 4096
    assert len(guard.report()) <= 4096


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::1", "::1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_ipv6_is_counted_by_network(host, counted):
    assert origin(host) == counted
