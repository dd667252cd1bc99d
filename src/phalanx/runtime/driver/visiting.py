"""The engine of a program that has no node: it sends requests to a head, and runs no tasks.

Such a program reaches the head of another account on its machine (the mode *shared*), or a head on
another machine with a token. Jobs, queues and listings work as in commands; the head knows the
program's account by its socket or its token. Tasks, actors and objects are not available: they are
in processes and files of one account, which no other account may reach.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar, cast

from phalanx.errors import NotAllowedError
from phalanx.observe.state.query import StateAnswer, StateQuery
from phalanx.protocol.requests.cluster import (
    GetAvailableResources,
    GetClusterResources,
    ListNodes,
)
from phalanx.protocol.requests.queues import AdmitQueue
from phalanx.protocol.requests.request import Request
from phalanx.protocol.requests.state import QueryState
from phalanx.runtime.daemons.finding import ask_cluster
from phalanx.runtime.driver.records import node_row
from phalanx.runtime.engine.interface import Engine, EngineOptions

R = TypeVar("R")
ANSWER_S = 60.0
"""Seconds to wait for an answer of the head."""


class VisitingEngine:
    """Sends requests to one head. Refuses everything that needs a node under the program's own
    account.
    """

    is_worker = False
    owns_cluster = False
    ref_type = generator_type = type("NoReference", (), {})

    def __init__(self, address: str, options: EngineOptions) -> None:
        self._address = address
        self.default_env: dict[str, Any] = dict(options.runtime_env or {})
        self.namespace = options.namespace or ""
        self.queue = options.queue
        self.priority = options.priority
        self.is_alive = True

    def stop(self) -> None:
        """End the visit. Nothing of this program runs elsewhere, so nothing else has to be
        ended.
        """
        self.is_alive = False

    def facts(self) -> dict[str, Any]:
        """Return the head's address: this program has no node and no session."""
        return {"address": self._address, "gcs_address": self._address, "webui_url": ""}

    def ask(self, request: Request[R]) -> R:
        """Send a request to the head, and wait. Raises any error with which the head answers."""
        if isinstance(request, AdmitQueue):
            # If a queue takes no work of this program, the queue itself refuses the program's jobs.
            return cast("R", None)
        return ask_cluster(self._address, request, ANSWER_S)

    def nodes(self) -> list[dict[str, Any]]:
        """Return all nodes, in the form of `ray.nodes()`."""
        return [node_row(node) for node in self.ask(ListNodes())]

    def cluster_resources(self) -> dict[str, float]:
        """Return the resources of all living nodes."""
        return self.ask(GetClusterResources())

    def available_resources(self) -> dict[str, float]:
        """Return the free resources of the nodes that are not draining."""
        return self.ask(GetAvailableResources())

    def state(self, query: StateQuery) -> StateAnswer:
        """Return a listing of the cluster. Raises ValueError for a query that is not allowed."""
        return self.ask(QueryState(query))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in Engine.__dict__:
            raise AttributeError(name)

        def refuse(*args: Any, **options: Any) -> NoReturn:
            raise NotAllowedError(
                f"this program asks the head at {self._address} and has no node of its own "
                f"account, which {name.replace('_', ' ')} needs: tasks, actors, gangs and objects "
                "stay within one account. Submit the program as a job (phalanx.submit, or "
                'phalanx run), or start a runtime of its own with phalanx.init("local")'
            )

        return refuse


def visit(address: str, options: EngineOptions) -> Engine:
    """Return the engine of a program that asks this head. Raises ConnectionError if the head does
    not answer, and AuthenticationError if the head does not know the token.
    """
    engine = cast("Engine", VisitingEngine(address, options))
    engine.cluster_resources()
    return engine
