"""Limits attempts to authenticate: after FAILURES in WINDOW_S, an address gets none. Pure."""

from __future__ import annotations

import ipaddress
from collections import deque

FAILURES = 20
WINDOW_S = 60.0
_ADDRESSES = 4096
"""How many addresses are remembered; the one that failed longest ago is forgotten first."""


def origin(host: str) -> str:
    """Return the address that failures are counted for; for IPv6 the /64, often one host's."""
    address = ipaddress.ip_address(host.split("%", maxsplit=1)[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


class Guard:
    """Failures by address. Times are seconds of any steady clock."""

    def __init__(self) -> None:
        self._failures: dict[str, deque[float]] = {}
        self._unreported: dict[str, int] = {}
        self.failed_total = 0

    def admits(self, address: str, now: float) -> bool:
        """Whether a connection from there may try at all. A refusal is counted for the report."""
        times = self._failures.get(address)
        if times is None:
            return True
        while times and times[0] <= now - WINDOW_S:
            times.popleft()
        if len(times) < FAILURES:
            return True
        self._count(address)
        return False

    def failed(self, address: str, now: float) -> None:
        """Count a connection from there that did not authenticate."""
        times = self._failures.pop(address, None) or deque(maxlen=FAILURES)
        times.append(now)
        self._failures[address] = times  # the address that failed last comes last
        if len(self._failures) > _ADDRESSES:
            del self._failures[next(iter(self._failures))]
        self._count(address)

    def _count(self, address: str) -> None:
        self.failed_total += 1
        if address in self._unreported or len(self._unreported) < _ADDRESSES:
            self._unreported[address] = self._unreported.get(address, 0) + 1

    def report(self) -> dict[str, int]:
        """Return failures and refusals by address since the last report."""
        unreported, self._unreported = self._unreported, {}
        return unreported
