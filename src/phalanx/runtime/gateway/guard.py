"""Counts the connections that did not authenticate, by address, for reports. This module is
pure.
"""

from __future__ import annotations

import ipaddress

_ADDRESSES = 4096
"""The largest number of addresses in one report."""


def origin(host: str) -> str:
    """Return the address under which failures are counted. For IPv6 this is the /64 network,
    because all its addresses often belong to one machine.
    """
    address = ipaddress.ip_address(host.split("%", maxsplit=1)[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


class Guard:
    """The numbers of failures by address."""

    def __init__(self) -> None:
        self._unreported: dict[str, int] = {}

    def failed(self, address: str) -> None:
        """Count a connection that did not authenticate, for the address from which it came."""
        if address in self._unreported or len(self._unreported) < _ADDRESSES:
            self._unreported[address] = self._unreported.get(address, 0) + 1

    def report(self) -> dict[str, int]:
        """Return failures by address since the last report."""
        unreported, self._unreported = self._unreported, {}
        return unreported
