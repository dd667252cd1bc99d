"""One round of `phalanx provision`: look at the cluster, decide, and carry out the decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx.cli.provisioning.booting import BootingFile
from phalanx.cli.provisioning.decisions import (
    Action,
    Down,
    Drain,
    PoolState,
    Seen,
    Undrain,
    Up,
)
from phalanx.cli.provisioning.demand import (
    Amounts,
    nodes_for_demands,
    nodes_for_gangs,
    with_pool,
)
from phalanx.cli.provisioning.pools import Pool
from phalanx.cli.provisioning.programs import run
from phalanx.model.holds import DRAIN
from phalanx.model.lifecycle import ALIVE, DEAD
from phalanx.model.rows.cluster import NodeInfo, StatusInfo
from phalanx.protocol.requests.cluster import DeclarePools, DrainNode, UndrainNode
from phalanx.protocol.requests.request import Request
from phalanx.scheduler.cycle.specs import Snapshot

IDLE = "it was idle"
"""The reason of a drain by this command. Only nodes that drain for this reason are ended."""
BY = "phalanx provision"


class Provisioner:
    """All pools of one cluster."""

    def __init__(
        self,
        pools: Sequence[Pool],
        file: BootingFile | None,
        ask: Callable[[Request[bool]], bool],
        say: Callable[[str], None],
        now: float,
    ) -> None:
        """`file`: None if decisions are printed and not carried out. `ask` sends a request to the
        head. `say` prints a line.
        """
        left = {} if file is None else file.read()
        self._states = [PoolState(one, dict.fromkeys(left.get(one.name, ()), now)) for one in pools]
        self._file = file
        self._ask = ask
        self._say = say

    def declare(self) -> DeclarePools:
        """Return the request that declares the pools, and the machines that boot, to the head."""
        return DeclarePools([one.pool.declared(one.booting) for one in self._states])

    def round(
        self, status: StatusInfo, snapshot: Snapshot, demands: Sequence[Amounts], now: float
    ) -> None:
        """Decide for each pool, and carry out the actions. Waiting work is assigned to the pools in
        their order.
        """
        nodes = [row for row in status.nodes if row.state != DEAD]
        free = [row.available for row in nodes if row.state == ALIVE and not row.holds]
        for state in self._states:
            pool = state.pool
            seen = [_seen(row) for row in nodes if pool.owns(row.name)]
            snapshot = with_pool(snapshot, pool, len(state.booting))
            free += [pool.resources] * len(state.booting)
            ending = sum(one.is_ending for one in seen)
            room = state.room(seen) + ending
            for_gangs = nodes_for_gangs(snapshot, pool, room)
            for_demands = nodes_for_demands(demands, free, pool, room - for_gangs)
            wanted = for_gangs + for_demands
            for action in state.decide(seen, wanted, now):
                self._carry_out(state, action, status.address, now)
            snapshot = with_pool(snapshot, pool, for_gangs)
            free += [pool.resources] * for_demands
        if self._file is not None:
            self._file.write({one.pool.name: list(one.booting) for one in self._states})

    def _carry_out(self, state: PoolState, action: Action, head: str, now: float) -> None:
        self._say(words(action))
        if self._file is None:
            return
        match action:
            case Drain(node=node):
                self._ask(DrainNode(node.node_id, IDLE, BY, 0.0))
            case Undrain(node=node):
                self._ask(UndrainNode(node.node_id))
            case Up(pool, names):
                found = run(pool, pool.up, names, head)
                state.began(found.names, now)
                missing = [name for name in names if name not in found.names]
                if found.failure or missing:
                    state.failed(now)
                    self._say(
                        f"{pool.name}: {found.failure or f'{pool.up[0]} did not name them'}; not "
                        f"started: {', '.join(missing) or 'none'}"
                    )
            case Down(pool, names):
                found = run(pool, pool.down, names, head)
                if found.failure:
                    self._say(f"{pool.name}: {found.failure}")


def words(action: Action) -> str:
    """Return a sentence that says what an action does."""
    match action:
        case Up(pool, names):
            return f"{pool.name}: {', '.join(names)} to be started: work waits for a node"
        case Drain(pool, node):
            return f"{pool.name}: {node.name} drains: it is idle for {pool.idle_s:g} s"
        case Undrain(pool, node):
            return f"{pool.name}: {node.name} takes work again"
        case Down(pool, names, why):
            return f"{pool.name}: {', '.join(names)} to be ended: {why}"


def _seen(row: NodeInfo) -> Seen:
    is_free = all(row.available.get(name, 0.0) >= total for name, total in row.total.items())
    return Seen(
        name=row.name,
        node_id=row.node_id,
        is_idle=is_free and not row.running and not row.waiting,
        is_ending=any(kind == DRAIN and reason == IDLE for kind, reason, *_ in row.holds),
    )


def loose_demands(rows: Iterable[dict[str, Any]]) -> list[Amounts]:
    """Return the amounts that waiting tasks and actors need, from rows of the state API."""
    found = (row.get("required_resources") for row in rows)
    return [one for one in found if isinstance(one, dict) and one]
