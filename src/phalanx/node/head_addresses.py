"""The addresses of a cluster's head and its standbys, and the silence after which a node tries
another address.

In a cluster with a standby, a node cannot wait for its connection to end: if the head's machine
loses power or the head stands still, the connection stays open.
"""

from __future__ import annotations

from collections.abc import Sequence

PROBE_EVERY_S = 1.0
"""Seconds without a message of the head after which the node asks the head for an answer."""
SILENCE_S = 5.0
"""Seconds without a message of the head after which the node tries the next address."""
JOINING_S = 3.0
"""Seconds after which the node tries the next address, if the head at the present address has not
answered the request to join.
"""


class HeadAddresses:
    """The addresses at which a node looks for its head, one after the other."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """`addresses`: HOST:PORT of the head, then of each standby. There is at least one."""
        self._addresses = list(addresses)
        self._index = 0
        self._untried = len(self._addresses)

    @property
    def current(self) -> str:
        """The address in use."""
        return self._addresses[self._index]

    @property
    def are_several(self) -> bool:
        """Whether the cluster has a standby."""
        return len(self._addresses) > 1

    @property
    def are_all_tried(self) -> bool:
        """Whether all addresses were tried in vain since one of them last led to a head."""
        return self._untried <= 0

    def failed(self) -> None:
        """Go on to the next address, because the present one led to no head."""
        self._untried -= 1
        self._index = (self._index + 1) % len(self._addresses)

    def joined(self, standbys: Sequence[str]) -> None:
        """Note that the present address led to the head. Remember the standbys that it named."""
        self._addresses += (one for one in standbys if one not in self._addresses)
        self._untried = len(self._addresses)

    @property
    def all(self) -> tuple[str, ...]:
        """The addresses that the node was given, then those that heads have named since."""
        return tuple(self._addresses)

    @property
    def others(self) -> tuple[str, ...]:
        """The addresses that are not in use."""
        return tuple(one for one in self._addresses if one != self.current)


class HeadSilence:
    """Measures how long the head has sent nothing over the present connection. Times are in the
    node's own time, so that a pause of the node itself does not count.
    """

    def __init__(self) -> None:
        self._heard_at = 0.0
        self._probed_at = 0.0

    def heard(self, now: float) -> None:
        """Note a message of the head, or the beginning of a connection."""
        self._heard_at = self._probed_at = now

    def is_probe_due(self, now: float) -> bool:
        """Whether the node must ask the head for an answer now. If so, the question counts as
        asked.
        """
        if now - self._probed_at < PROBE_EVERY_S:
            return False
        self._probed_at = now
        return True

    def is_too_long(self, now: float, is_joined: bool) -> bool:
        """Whether the head counts as lost. `is_joined`: whether the head has let the node join."""
        return now - self._heard_at > (SILENCE_S if is_joined else JOINING_S)
