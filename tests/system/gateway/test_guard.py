"""Failed handshakes are counted and reported by address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.runtime.gateway.guard import Guard, origin


def test_failures_are_reported_once():
    guard = Guard()
    for address in ("a", "b", "a"):
        guard.failed(address)
    assert guard.report() == {"a": 2, "b": 1}
    assert guard.report() == {}


@given(st.lists(st.integers(0, 50_000), max_size=100))
def test_memory_is_bounded(extra):
    guard = Guard()
    for number in [*range(6000), *extra]:
        guard.failed(str(number))
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
