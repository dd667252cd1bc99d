"""The questions a node answers: its own, one method each, and those it passes to the head."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phalanx.protocol.cluster_messages import Answer
from phalanx.protocol.node_messages import Reply, Request

if TYPE_CHECKING:
    from phalanx.engines.embedded.node.shell import NodeShell


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


class NodeRequests:
    """Looks a request's method up here and answers with what it returns or raises."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self._methods: dict[str, Callable[..., Any]] = {
            "register_driver": self._register_driver,
            "node_id": lambda connection, token: self._shell.config.node_id,
            "node_labels": lambda connection, token: self._shell.config.labels,
            "reserve": self._reserve,
            "environment": self._environment,
            "list_workers": self._list_workers,
            "pending": self._pending,
            "drain_output": self._drain_output,
            "events": self._events,
            "store": self._store,
            "pull": self._pull,
        }

    def answer(self, connection: Any, request: Request) -> None:
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

    def _pass_on(self, connection: Any, request: Request) -> None:
        member = self._shell.member
        if not connection.peer and member.trouble:
            # A person waits for it: later would be worse than not at all.
            told = f"The head at {self._shell.config.address} is not there: {member.trouble}."
            connection.post(Reply(request.token, None, ("SystemFailureError", told)))
            return
        if request.method in _NEEDS_REPORT:
            member.report_now()

        def answered(answer: Answer) -> None:
            if request.token:
                connection.post(Reply(request.token, answer.result, answer.error))

        self._shell.control.ask(connection.peer, request.method, request.args, answered)

    def _register_driver(self, connection: Any, token: int, **args: Any) -> Any:
        self._shell.jobs.register(connection, token, args)
        return LATER

    def _reserve(self, connection: Any, token: int, wanted: int) -> _Later:
        def answer(credit: int, error: Exception | None) -> None:
            told = (type(error).__name__, str(error)) if error is not None else None
            connection.post(Reply(token, credit, told))

        self._shell.store.reserve(connection.peer, wanted, answer)
        return LATER

    def _environment(self, connection: Any, token: int, key: bytes, env: Any) -> None:
        self._shell.jobs.environment(key, env)

    def _list_workers(self, connection: Any, token: int) -> list[dict[str, Any]]:
        return [
            {
                "worker_id": w.worker_id.hex(),
                "pid": w.pid,
                "job_id": w.job.hex(),
                "is_alive": w.is_ready,
                "is_busy": bool(w.lease),
                "node_id": self._shell.config.node_id,
            }
            for w in self._shell.leases.workers.all()
        ]

    def _pending(self, connection: Any, token: int) -> list[dict[str, Any]]:
        return [
            {"resources": d.place.to_mapping(), "count": d.count, "actor": d.actor.hex()}
            for d in self._shell.leases.waiting.all()
        ]

    def _drain_output(self, connection: Any, token: int) -> _Later:
        self._shell.exits.reply_when_drained(connection, token)
        return LATER

    def _events(self, connection: Any, token: int) -> list[tuple[Any, ...]]:
        return list(self._shell.happened.runs)

    def _store(self, connection: Any, token: int) -> dict[str, int]:
        return self._shell.store.ledger.counts()

    def _pull(self, connection: Any, token: int, name: str, size: int) -> _Later:
        def done(failure: str) -> None:
            error = ("ObjectLostError", failure) if failure else None
            connection.post(Reply(token, None, error))

        self._shell.store.pull(name, size, done)
        return LATER
