"""Answers requests for listings, from the head's own tables or from the answers of all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from phalanx.errors import StateQueryError
from phalanx.head.actors.table import ActorRecord, ActorTable
from phalanx.head.clock import Clock
from phalanx.head.drivers import Drivers
from phalanx.head.groups.table import GroupTable
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.model.ids import PREFIX_BYTES, task_id_bytes, worker_id_of
from phalanx.model.lifecycle import (
    ALIVE,
    DEAD,
    DEPENDENCIES_UNREADY,
    FAILED,
    FINISHED,
    PENDING_ARGS,
    PENDING_NODE,
)
from phalanx.model.rows.cluster import NodeInfo
from phalanx.model.rows.row import Row as TypedRow
from phalanx.observe.state.columns import OF_HEAD, Row
from phalanx.observe.state.gathering import Gathering
from phalanx.observe.state.label_columns import label_columns
from phalanx.observe.state.query import Selection, StateAnswer, check_query
from phalanx.observe.state.runtime_env_column import shown_runtime_env
from phalanx.observe.state.task_rows import milliseconds
from phalanx.protocol.report_messages import GatherState, StateReported
from phalanx.protocol.requests.request import LATER, Asker, Entry, Later
from phalanx.protocol.requests.state import QueryState

KEPT_PART = 0.2
"""The fraction of a query's time that the head does not give to the nodes. So the asker gets the
other rows in time if a node does not answer.
"""
MAX_ROUNDS = 64
"""The largest number of listings in progress at the same time. If this number is reached, further
requests are refused.
"""
_PREFIX_DIGITS = 2 * PREFIX_BYTES
_HEADS_NODE = "node:__internal_head__"


class StateQueries:
    """Answers QueryState requests."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Clock,
        nodes: NodeDirectory,
        drivers: Drivers,
        actors: ActorTable,
        groups: GroupTable,
        of_gangs: Callable[[str], Sequence[TypedRow]],
    ) -> None:
        """`of_gangs` returns the rows of gangs or of jobs, as requested."""
        self._outbox = outbox
        self._clock = clock
        self._nodes = nodes
        self._drivers = drivers
        self._actors = actors
        self._groups = groups
        self._of_gangs = of_gangs
        self._rounds: Gathering[StateReported] = Gathering()

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [QueryState.handled_by(self.answer)]

    def answer(self, asker: Asker[StateAnswer], request: QueryState) -> StateAnswer | Later:
        """Answer from the head's own tables, or after the nodes have answered."""
        query = request.query
        check_query(query)
        selection = Selection(query)
        if query.kind in OF_HEAD:
            selection.offer_all(self._own_rows(query.kind))
            return StateAnswer(selection.part(), [])
        if len(self._rounds) >= MAX_ROUNDS:
            raise StateQueryError(f"{MAX_ROUNDS} listings are under way: try again a little later.")
        if query.kind == "tasks":
            selection.offer_all(self._creations())
        records = self._nodes.living()
        there = [record for record in records if self._outbox.is_connected(record.prefix)]
        away = [record for record in records if not self._outbox.is_connected(record.prefix)]
        within_s = query.timeout_s * (1 - KEPT_PART)

        def ask(number: int) -> None:
            for record in there:
                message = GatherState(number, query, within_s, record.host or "127.0.0.1")
                self._outbox.send(record.prefix, message)

        pids: dict[str, int] = {}

        def finish(answers: dict[bytes, StateReported], unheard: list[bytes]) -> None:
            silent = [_named(record, "it is not connected") for record in away]
            for prefix in unheard:
                record = self._nodes.of_prefix(prefix)
                if record is not None:
                    silent.append(_named(record, f"no answer within {within_s:g} s"))
            for report in answers.values():
                selection.add(report.part)
                silent += report.silent
                pids.update(report.pids)
            part = selection.part()
            self._complete(part.rows, pids)
            asker.reply(StateAnswer(part, silent))

        asked = [record.prefix for record in there]
        self._rounds.begin(asked, self._clock.now() + within_s, ask, finish)
        return LATER

    def reported(self, prefix: bytes, message: StateReported) -> None:
        """Add a node's answer."""
        self._rounds.answered(prefix, message.number, message)

    def node_dead(self, prefix: bytes) -> None:
        """Stop waiting for a dead node. Its rows are no longer part of the cluster."""
        self._rounds.on_process_end(prefix)

    def tick(self, now: float) -> None:
        """Finish the listings whose time is up."""
        self._rounds.tick(now)

    def _complete(self, rows: list[Row], pids: dict[str, int]) -> None:
        """Add to the rows the facts about other nodes that owners do not know: ids and addresses of
        nodes, and pids of workers.
        """
        known = {record.prefix.hex(): record.node_id for record in self._nodes.all()}
        hosts = {record.node_id: record.host or "127.0.0.1" for record in self._nodes.all()}
        for row in rows:
            short = row.get("node_id")
            if isinstance(short, str) and len(short) == _PREFIX_DIGITS:
                row["node_id"] = known.get(short, short)
            if row.get("worker_pid", 0) is None:
                row["worker_pid"] = pids.get(str(row.get("worker_id")))
            if "process_id" in row and row.get("pid", 0) is None:
                row["pid"] = pids.get(worker_id_of(bytes.fromhex(row["process_id"])))
            if row.get("ip", "") is None:
                row["ip"] = hosts.get(row["node_id"])

    # ---- the head's own tables ----------------------------------------------------------------

    def _own_rows(self, kind: str) -> Iterator[Row]:
        if kind == "actors":
            yield from map(self._actor_row, self._actors.all())
        elif kind == "nodes":
            yield from map(_node_row, self._nodes.rows())
        elif kind == "groups":
            yield from self._groups.table()
        elif kind == "drivers":
            for driver in self._drivers.rows(with_ended=True):
                row = driver.as_dict()
                row["start_time_ms"] = milliseconds(driver.start_time)
                row["end_time_ms"] = milliseconds(driver.end_time)
                yield row
        else:
            for one in self._of_gangs(kind):
                yield one.as_dict()

    def _actor_row(self, record: ActorRecord) -> Row:
        known = self._drivers.environments.get(record.environment)
        shown = None if known is None else shown_runtime_env(known.variables)
        return {**actor_row(record), "serialized_runtime_env": shown}

    def _creations(self) -> Iterator[Row]:
        """Yield a row for the creation of each actor as a task, because the head itself places
        these tasks.
        """
        for record in self._actors.all():
            if not record.task_events:
                continue
            row = actor_row(record)
            creation = f"{record.class_name.rpartition('.')[2]}.__init__"
            is_placed = record.worker != b""
            yield {
                "task_id": task_id_bytes(record.actor, 0).hex(),
                "attempt_number": record.restarts,
                "name": creation,
                "state": _creation_state(record),
                "error_type": "TASK_EXECUTION_EXCEPTION" if record.error else None,
                "job_id": row["job_id"],
                "actor_id": row["actor_id"],
                "type": "ACTOR_CREATION_TASK",
                "func_or_class_name": creation,
                "node_id": row["node_id"] if is_placed else None,
                "worker_id": row["worker_id"],
                "worker_pid": row["pid"],
                "language": "PYTHON",
                "required_resources": record.hold,
                "placement_group_id": row["placement_group_id"],
                "is_debugger_paused": False,
            }


def actor_row(record: ActorRecord) -> Row:
    """Return an actor's row in a listing."""
    return {
        "actor_id": record.actor.hex(),
        "class_name": record.class_name,
        "state": record.state,
        "job_id": record.job.hex(),
        "name": record.name,
        "node_id": record.node or None,
        "pid": record.pid or None,
        "ray_namespace": record.namespace,
        "required_resources": record.hold,
        "death_cause": {"error_message": record.reason} if record.reason else None,
        "is_detached": record.detached,
        "placement_group_id": record.strategy.get("group"),
        "num_restarts": record.restarts,
        "num_restarts_due_to_lineage_reconstruction": 0,
        "num_restarts_due_to_node_preemption": 0,
        "repr_name": record.repr_name,
        "call_site": record.call_site or None,
        **label_columns(record.strategy.get("labels", ())),
        "owner_id": record.owner.hex(),
        "worker_id": worker_id_of(record.worker) if record.worker else None,
        "start_time_ms": milliseconds(record.began),
        "end_time_ms": milliseconds(record.ended),
    }


def _creation_state(record: ActorRecord) -> str:
    if record.is_made or record.state == ALIVE:
        return FINISHED
    if record.state == DEAD:
        return FAILED
    return PENDING_ARGS if record.state == DEPENDENCIES_UNREADY else PENDING_NODE


def _node_row(node: NodeInfo) -> Row:
    return {
        "node_id": node.node_id,
        "node_ip": node.host or "127.0.0.1",
        "is_head_node": _HEADS_NODE in node.total,
        "state": node.state,
        "state_message": node.reason or None,
        "node_name": node.name or node.host or "127.0.0.1",
        "resources_total": node.total,
        "labels": node.labels,
        "resources_available": node.available,
        "running": node.running,
        "waiting": node.waiting,
        "port": node.port,
    }


def _named(record: NodeRecord, why: str) -> str:
    where = f" ({record.hostname})" if record.hostname else ""
    return f"node {record.node_id}{where}: {why}"
