"""Answers of nodes about the bundles of gangs, passed on to the attempts that asked."""

from __future__ import annotations

from collections.abc import Collection

from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.refusals import Refusals
from phalanx.head.gangs.rendezvous import Rendezvous
from phalanx.model.ids import GroupId
from phalanx.protocol.bundle_messages import BundlesGone, Committed, Prepared


class BundleAnswers:
    """Handles the answers of nodes that were asked to prepare, commit or free bundles."""

    def __init__(
        self,
        registry: GangRegistry,
        reservations: GangBinder,
        rendezvous: Rendezvous,
        refusals: Refusals | None,
    ) -> None:
        """`refusals` remembers the nodes that have refused, so that cycles prefer other nodes.
        None: such nodes are asked again like any other.
        """
        self._registry = registry
        self._reservations = reservations
        self._rendezvous = rendezvous
        self._refusals = refusals

    def prepared(self, node_id: str, message: Prepared, now: float) -> None:
        """Note the devices that the node has set aside, or the ports that it reports as busy, and
        pass the answer to the attempt.
        """
        gang = self._registry.gangs.get(message.group)
        if gang is None:
            return
        attempt = self._reservations.attempts.get(message.group)
        asked: Collection[int] = ()
        if attempt is not None and attempt.number == message.attempt:
            asked = attempt.bundles.get(node_id, ())
            for index, devices in message.devices.items():
                gang.members[index].devices = devices
        if message.busy:
            self._rendezvous.note_busy(message.busy)
            self._rendezvous.free_ports(gang)
            gang.backoff_s = 0.0
        elif asked and self._refusals is not None and not message.ok:
            self._refusals.refused(gang, node_id, asked)
        group, number, ok = message.group, message.attempt, message.ok
        self._reservations.attempts.prepared(node_id, group, number, ok, now)

    def committed(self, node_id: str, message: Committed, now: float) -> None:
        """Pass the node's answer to the attempt that it concerns."""
        group, number, ok = message.group, message.attempt, message.ok
        self._reservations.attempts.committed(node_id, group, number, ok, now)

    def returned(self, node_id: str, message: BundlesGone) -> None:
        """Free the places of members whose bundles the node has freed."""
        self._reservations.returned(node_id, message.group, message.attempt)

    def bundle_left(self, group: GroupId, index: int) -> None:
        """End the member in this bundle, because its actor is permanently dead."""
        gang = self._registry.gangs.get(group)
        if gang is not None and index >= 0:
            self._reservations.end(gang, [index])
