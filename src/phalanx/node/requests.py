"""The questions that a node answers: its own, one method each, and those it passes to the head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from phalanx.node.control_link import ControlLink
from phalanx.node.drivers import Drivers
from phalanx.node.events import NodeEvents
from phalanx.node.leases import LeaseMachine
from phalanx.node.object_store import ObjectStore
from phalanx.node.peers import Peer
from phalanx.node.reports import Reports
from phalanx.protocol.cluster_messages import Answer
from phalanx.protocol.node_messages import Reply, Request


class _Later:
    """The answer will be sent when it is known."""


LATER = _Later()

FOR_CONTROL = frozenset(
    {
        "nodes",
        "cluster_resources",
        "available_resources",
        "register_actor",
        "announce_actor",
        "get_actor",
        "actor_handle",
        "watch_actor",
        "kill_actor",
        "list_named_actors",
        "list_actors",
        "list_jobs",
        "create_group",
        "wait_group",
        "remove_group",
        "group_table",
        "named_group",
        "drain_node",
        "set_totals",
        "status",
        "cluster_events",
    }
)
"""What only the control store knows."""
_FOR_VISITORS = frozenset({"status", "drain_node", "set_totals"})
_BATCH = "batch."
_OF_DRIVERS = frozenset({"batch.create_gang", "batch.end_members"})
_NEEDS_REPORT = frozenset({"available_resources", "cluster_resources", "nodes", "create_group"})


def is_for_visitors(method: str) -> bool:
    """Whether it may be asked by who is no driver and no worker."""
    return method in _FOR_VISITORS or (method.startswith(_BATCH) and method not in _OF_DRIVERS)


class HeadState(Protocol):
    """How the node stands with its head."""

    @property
    def trouble(self) -> str:
        """Why the head is not there; empty while it is."""
        ...


class NodeRequests:
    """Looks a request's method up here and answers with what it returns or raises."""

    def __init__(
        self,
        node_id: str,
        labels: dict[str, str],
        address: str,
        leases: LeaseMachine,
        drivers: Drivers,
        store: ObjectStore,
        events: NodeEvents,
        control: ControlLink,
        reports: Reports,
        head: HeadState,
        drain_output: Callable[[Callable[[], None]], None],
    ) -> None:
        """`address`: of the head, for people. `drain_output` calls back once all that workers have
        printed so far has been passed on."""
        self._node_id = node_id
        self._labels = labels
        self._address = address
        self._leases = leases
        self._drivers = drivers
        self._store = store
        self._events = events
        self._control = control
        self._reports = reports
        self._head = head
        self._drain = drain_output
        self._methods: dict[str, Callable[..., Any]] = {
            "register_driver": self._register_driver,
            "node_id": lambda connection, token: self._node_id,
            "node_labels": lambda connection, token: self._labels,
            "reserve": self._reserve,
            "environment": self._environment,
            "list_workers": self._list_workers,
            "pending": self._pending,
            "drain_output": self._drain_output,
            "events": self._list_events,
            "store": self._store_counts,
            "pull": self._pull,
        }

    def answer(self, connection: Peer, request: Request) -> None:
        """Reply to one request; errors travel as class name and text."""
        if request.method in FOR_CONTROL or request.method.startswith(_BATCH):
            self._pass_on(connection, request)
            return
        method = self._methods.get(request.method)
        if method is None:
            error = ("ValueError", f"the node knows no request {request.method!r}")
            connection.post(Reply(request.token, None, error))
            return
        try:
            result = method(connection, request.token, **request.args)
        except Exception as raised:
            error = (type(raised).__name__, str(raised))
            connection.post(Reply(request.token, None, error))
            return
        if result is not LATER:
            connection.post(Reply(request.token, result))

    def _pass_on(self, connection: Peer, request: Request) -> None:
        if not connection.peer and self._head.trouble:
            # A person waits for it: later would be worse than not at all.
            text = f"The head at {self._address} is not there: {self._head.trouble}."
            connection.post(Reply(request.token, None, ("SystemFailureError", text)))
            return
        if request.method in _NEEDS_REPORT:
            self._reports.report_needed()

        def answered(answer: Answer) -> None:
            if request.token:
                connection.post(Reply(request.token, answer.result, answer.error))

        self._control.ask(connection.peer, request.method, request.args, answered)

    def _register_driver(self, connection: Peer, token: int, **args: Any) -> Any:
        self._drivers.register(connection, token, args)
        return LATER

    def _reserve(self, connection: Peer, token: int, wanted: int) -> _Later:
        def answer(credit: int, error: Exception | None) -> None:
            failure = (type(error).__name__, str(error)) if error is not None else None
            connection.post(Reply(token, credit, failure))

        self._store.reserve(connection.peer, wanted, answer)
        return LATER

    def _environment(self, connection: Peer, token: int, key: bytes, env: Any) -> None:
        self._drivers.define_environment(key, env)

    def _list_workers(self, connection: Peer, token: int) -> list[dict[str, Any]]:
        return [
            {
                "worker_id": w.worker_id.hex(),
                "pid": w.pid,
                "job_id": w.job.hex(),
                "is_alive": w.is_ready,
                "is_busy": bool(w.lease),
                "node_id": self._node_id,
            }
            for w in self._leases.workers.all()
        ]

    def _pending(self, connection: Peer, token: int) -> list[dict[str, Any]]:
        return [
            {"resources": d.place.to_mapping(), "count": d.count, "actor": d.actor.hex()}
            for d in self._leases.waiting.all()
        ]

    def _drain_output(self, connection: Peer, token: int) -> _Later:
        self._drain(lambda: connection.post(Reply(token, None)))
        return LATER

    def _list_events(self, connection: Peer, token: int) -> list[tuple[Any, ...]]:
        return list(self._events.runs)

    def _store_counts(self, connection: Peer, token: int) -> dict[str, int]:
        return self._store.ledger.counts()

    def _pull(self, connection: Peer, token: int, name: str, size: int) -> _Later:
        def done(failure: str) -> None:
            error = ("ObjectLostError", failure) if failure else None
            connection.post(Reply(token, None, error))

        self._store.pull(name, size, done)
        return LATER
