"""Limits each sharer of a GPU to its part of the GPU's memory, as the reader of the devices
measures it.

A sharer that uses more than its limit for longer than a grace period is ended. Memory that a holder
still has after its end is withheld: the memory is not handed out until a reading shows that it is
free. A card whose memory is withheld for long is suspect. A card whose MPS daemon has ended is
suspect, too: its sharers are ended, and the card is read again before it is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from phalanx.model.gpu_sharing import BY_MPS
from phalanx.model.readable import size
from phalanx.node.device_holders import Holder, owner_of
from phalanx.node.gpu_shares import GpuShares
from phalanx.node.notes import Note
from phalanx.observe.devices import DeviceProcess, DeviceSample, DeviceShare, cards_of
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.quantities import SCALE

GRACE_S = 5.0
"""Seconds for which a sharer may use more memory than its limit."""
LOOK_AGAIN_S = 0.5
"""Seconds between readings while a sharer exceeds its limit, or while ended holders have not freed
their memory.
"""
SUSPECT_AFTER_S = 30.0
"""Seconds after which a card is suspect if ended holders have not freed its memory."""


class GpuMemory:
    """Watches the memory of a node's GPUs."""

    def __init__(
        self,
        resources: NodeResources,
        holders: Callable[[], Iterable[Holder]],
        end: Callable[[Holder, str, bool], None],
        look: Callable[[], None],
        shares: GpuShares,
        note: Note,
    ) -> None:
        """`end` ends a holder immediately. Its arguments are the holder, the reason, and whether
        this reason is the holder's use of memory. `look` asks for a reading soon.
        """
        self._resources = resources
        self._holders = holders
        self._end = end
        self._look = look
        self._shares = shares
        self._daemons = shares.daemons
        self._note = note
        self._samples: Sequence[DeviceSample] = ()
        self._ours: dict[int, dict[int, str]] = {}
        """For each GPU: the processes on it that had a holder when they were last seen, each with
        the holder's name.
        """
        self._over_since: dict[tuple[bytes, int], float] = {}
        self._away_since: dict[int, float] = {}
        """For each GPU on which ended holders still have memory: the time since which they have it.
        """
        self._without_daemon: dict[int, None] = {}
        """The GPUs whose MPS daemon has ended, until their sharers have ended and the GPUs were
        read again.
        """
        self._look_at = 0.0
        resources.gpu_released = self._released

    def suspicion(self, number: int, now: float) -> str:
        """Return in one clause why a GPU is suspect; "" for any other GPU."""
        since = self._away_since.get(number, now)
        if now - since < SUSPECT_AFTER_S:
            return ""
        names = ", ".join(sorted({self._ours[number][p.pid] for p in self._strays(number)}))
        used = _total(self._strays(number))
        return f"{size(used)} of its memory did not come back when {names or 'its holder'} ended"

    def used_by(self, holder: Holder, number: int) -> int | None:
        """Return the bytes that a holder's processes use on a GPU; None if unknown."""
        mine = [p for p in self._processes(number) if owner_of(p, holder.pids)]
        if any(process.memory_bytes is None for process in mine):
            return None
        return _total(mine)

    def shares(self) -> dict[int, list[DeviceShare]]:
        """Return the sharers of each GPU, each with the memory that it holds and uses."""
        found: dict[int, list[DeviceShare]] = {}
        for holder in self._holders():
            for number in holder.devices if holder.mode else ():
                found.setdefault(number, []).append(
                    DeviceShare(
                        holder=holder.name,
                        mode=holder.mode,
                        memory=holder.memory.get(number),
                        used=self.used_by(holder, number) if self._samples else None,
                        limit=holder.limits.get(number),
                    )
                )
        return found

    def seen(self, samples: Sequence[DeviceSample], now: float) -> bool:
        """Store a new reading. Returns whether the amounts that can be handed out have changed."""
        self._samples = samples
        self._shares.names = {one.number: one.uuid for one in samples}
        has_sizes = self._resources.set_cards(*cards_of(samples))
        holders = list(self._holders())
        for sample in samples:
            before = self._ours.get(sample.number, {})
            known: dict[int, str] = {}
            for process in sample.processes:
                name = process.holder or before.get(process.pid, "")
                if name:
                    known[process.pid] = name
            self._ours[sample.number] = known
        for number in list(self._without_daemon):
            if number not in self._resources.modes() and not self._strays(number):
                del self._without_daemon[number]
        self._end_those_over(holders, now)
        return self._withhold(now) or has_sizes

    def tick(self, now: float) -> None:
        """End the sharers of GPUs whose MPS daemon has ended. Ask for another reading while one is
        needed.
        """
        for number, how in self._daemons.ended().items():
            self._without_daemon[number] = None
            self._note(f"the MPS daemon of GPU {number} {how}")
            for holder in list(self._holders()):
                if number in holder.devices and holder.mode == BY_MPS:
                    text = f"the MPS daemon of GPU {number}, which it used, {how}"
                    self._end(holder, text, False)
            self._withhold(now)
        if now >= self._look_at and (self._over_since or self._away_since or self._without_daemon):
            self._look_at = now + LOOK_AGAIN_S
            self._look()

    def _end_those_over(self, holders: Sequence[Holder], now: float) -> None:
        over: dict[tuple[bytes, int], float] = {}
        for holder in holders:
            for number, limit in holder.limits.items():
                used = self.used_by(holder, number)
                if used is None or used <= limit:
                    continue
                key = (holder.key, number)
                since = over[key] = self._over_since.get(key, now)
                if now - since >= GRACE_S:
                    text = (
                        f"it used {size(used)} of the memory of GPU {number}, above its limit of "
                        f"{size(limit)}, for {now - since:.0f} s"
                    )
                    self._end(holder, text, True)
        self._over_since = over

    def _released(self, number: int) -> None:
        """Handle the end of a holder on a GPU: withhold the memory that its processes still use,
        and ask for a reading soon. If nobody shares the GPU any more, end its MPS daemon.
        """
        if number not in self._resources.modes():
            self._daemons.end(number)
        if self._strays(number):
            self._withhold(None)
            self._look()

    def _withhold(self, now: float | None) -> bool:
        """Withhold the memory that ended holders have not freed. Returns whether the withheld
        amounts have changed.

        `now`: the time of a new reading; None if there is no new reading. If the reading shows for
        the first time that a GPU has such memory, the time until the GPU is suspect begins at
        `now`.
        """
        kept: dict[int, int] = dict.fromkeys(self._without_daemon, SCALE)
        away: dict[int, float] = {}
        for number in self._ours:
            if strays := self._strays(number):
                if now is not None:
                    away[number] = self._away_since.get(number, now)
                total = self._resources.card_memory(number)
                units = -(-_total(strays) * SCALE // total) if total else SCALE
                is_told = all(process.memory_bytes is not None for process in strays)
                kept[number] = min(max(units, kept.get(number, 1)), SCALE) if is_told else SCALE
        if now is not None:
            self._away_since = away
        return self._resources.withhold(kept)

    def _strays(self, number: int) -> list[DeviceProcess]:
        """Return the processes on a GPU whose holders have ended."""
        ours = self._ours.get(number, {})
        there = [process for process in self._processes(number) if process.pid in ours]
        if not there:
            return []
        pids = [pid for holder in self._holders() for pid in holder.pids]
        return [process for process in there if not owner_of(process, pids)]

    def _processes(self, number: int) -> Iterator[DeviceProcess]:
        for sample in self._samples:
            if sample.number == number:
                yield from sample.processes


def _total(processes: Iterable[DeviceProcess]) -> int:
    return sum(process.memory_bytes or 0 for process in processes)
