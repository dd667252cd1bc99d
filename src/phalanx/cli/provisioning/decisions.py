"""Decides which machines to start and to end. This module is pure: the command passes in the state
of the cluster, and carries out the returned actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from phalanx.cli.provisioning.pools import Pool

FIRST_PAUSE_S = 10.0
"""Seconds until a pool is tried again after its first failure. Each later pause is twice as
long.
"""
LONGEST_PAUSE_S = 600.0


class Seen(NamedTuple):
    """A node of a pool, as the head knows it."""

    name: str
    node_id: str
    is_idle: bool
    """Whether nothing runs on the node and nothing is set aside there."""
    is_ending: bool
    """Whether the node drains because it was idle."""


class Up(NamedTuple):
    """The action that starts the machines of these nodes."""

    pool: Pool
    names: tuple[str, ...]


class Drain(NamedTuple):
    """The action that drains an idle node, so that its machine can be ended."""

    pool: Pool
    node: Seen


class Undrain(NamedTuple):
    """The action that ends the drain of a node, because work needs the node."""

    pool: Pool
    node: Seen


class Down(NamedTuple):
    """The action that ends the machines of these nodes."""

    pool: Pool
    names: tuple[str, ...]
    why: str


Action = Up | Drain | Undrain | Down


class PoolState:
    """The nodes of one pool that boot, are idle or are being ended, and the pool's failures. Times
    are in seconds, on a clock that never goes backwards.
    """

    def __init__(self, pool: Pool, booting: Mapping[str, float] | None = None) -> None:
        """`booting`: the nodes whose machines were requested, each with the time of the request."""
        self.pool = pool
        self.booting: dict[str, float] = dict(booting or {})
        self._idle_since: dict[str, float] = {}
        self._ended_at: dict[str, float] = {}
        self._failures = 0
        self._try_at = float("-inf")

    def room(self, seen: Sequence[Seen]) -> int:
        """Return how many more nodes the pool may have."""
        return max(self.pool.max - len({one.name for one in seen} | set(self.booting)), 0)

    def decide(self, seen: Sequence[Seen], wanted: int, now: float) -> list[Action]:
        """Return the actions to take now. `wanted`: the number of nodes that work needs in addition
        to those that exist or boot.
        """
        self._note_joined(seen)
        actions: list[Action] = self._give_up(now)
        again = [one for one in seen if one.is_ending and one.name not in self._ended_at][:wanted]
        actions += (Undrain(self.pool, one) for one in again)
        short = self.pool.min - sum(not one.is_ending for one in seen) - len(self.booting)
        count = min(max(wanted - len(again), short), self.room(seen))
        if count > 0 and now >= self._try_at:
            taken = {one.name for one in seen} | set(self.booting)
            actions.append(Up(self.pool, tuple(self.pool.names(taken, count))))
        if not wanted:
            actions += self._shrink(seen, now)
        return actions

    def _note_joined(self, seen: Sequence[Seen]) -> None:
        names = {one.name for one in seen}
        if joined := names & set(self.booting):
            self._failures = 0
            self.booting = {name: at for name, at in self.booting.items() if name not in joined}
        self._ended_at = {name: at for name, at in self._ended_at.items() if name in names}
        idle = {one.name for one in seen if one.is_idle}
        self._idle_since = {name: at for name, at in self._idle_since.items() if name in idle}

    def _give_up(self, now: float) -> list[Action]:
        late = [name for name, at in self.booting.items() if now - at > self.pool.boot_s]
        if not late:
            return []
        for name in late:
            del self.booting[name]
        self.failed(now)
        return [Down(self.pool, tuple(late), f"did not join within {self.pool.boot_s:g} s")]

    def _shrink(self, seen: Sequence[Seen], now: float) -> list[Action]:
        actions: list[Action] = []
        spare = sum(not one.is_ending for one in seen) - self.pool.min
        for one in seen:
            if one.is_ending:
                ended_at = self._ended_at.get(one.name)
                if one.is_idle and (ended_at is None or now - ended_at > self.pool.boot_s):
                    self._ended_at[one.name] = now
                    actions.append(Down(self.pool, (one.name,), "is idle and drained"))
            elif one.is_idle:
                since = self._idle_since.setdefault(one.name, now)
                if now - since >= self.pool.idle_s and spare > 0:
                    spare -= 1
                    actions.append(Drain(self.pool, one))
        return actions

    def began(self, names: Sequence[str], now: float) -> None:
        """Note that a program has started the machines of these nodes."""
        self.booting.update(dict.fromkeys(names, now))

    def failed(self, now: float) -> None:
        """Note that a program has failed, or that nodes did not join. The pool pauses."""
        self._try_at = now + min(FIRST_PAUSE_S * 2**self._failures, LONGEST_PAUSE_S)
        self._failures += 1
