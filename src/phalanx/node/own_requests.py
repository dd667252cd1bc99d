"""The requests that the node itself answers."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.errors import ObjectLostError
from phalanx.node.drivers import Drivers
from phalanx.node.events import NodeEvents
from phalanx.node.object_store import ObjectStore
from phalanx.node.waiting_tasks import WaitingTasks
from phalanx.observe.task_journal import Run
from phalanx.protocol.requests.node import (
    DefineEnvironment,
    DrainOutput,
    ExplainTask,
    GetNodeId,
    GetNodeLabels,
    GetStoreCounts,
    ListRuns,
    PullObject,
    RegisterDriver,
    ReserveMemory,
)
from phalanx.protocol.requests.request import LATER, Asker, Later, RequestHandlers

_JOB = slice(12, 16)


class OwnRequests:
    """The handlers of the requests that a node answers itself."""

    def __init__(
        self,
        node_id: str,
        labels: dict[str, str],
        drivers: Drivers,
        store: ObjectStore,
        events: NodeEvents,
        waiting_tasks: WaitingTasks,
        drain_output: Callable[[Callable[[], None]], None],
    ) -> None:
        """`drain_output` calls its argument as soon as everything that workers have printed so far
        was passed on.
        """
        self._node_id = node_id
        self._labels = labels
        self._drivers = drivers
        self._store = store
        self._events = events
        self._drain = drain_output
        self.handlers = RequestHandlers(
            "the node",
            RegisterDriver.handled_by(drivers.register),
            GetNodeId.handled_by(self._get_node_id),
            GetNodeLabels.handled_by(self._get_node_labels),
            ReserveMemory.handled_by(self._reserve_memory),
            DefineEnvironment.handled_by(self._define_environment),
            DrainOutput.handled_by(self._drain_output),
            ListRuns.handled_by(self._list_runs),
            GetStoreCounts.handled_by(self._get_store_counts),
            PullObject.handled_by(self._pull_object),
            ExplainTask.handled_by(waiting_tasks.explain),
        )

    def _get_node_id(self, asker: Asker[str], request: GetNodeId) -> str:
        return self._node_id

    def _get_node_labels(
        self, asker: Asker[dict[str, str]], request: GetNodeLabels
    ) -> dict[str, str]:
        return self._labels

    def _reserve_memory(self, asker: Asker[int], request: ReserveMemory) -> Later:
        def answer(credit: int, error: Exception | None) -> None:
            if error is None:
                asker.reply(credit)
            else:
                asker.fail(error)

        self._store.reserve(asker.process, request.wanted_bytes, answer)
        return LATER

    def _define_environment(self, asker: Asker[None], request: DefineEnvironment) -> None:
        self._drivers.define_environment(request.key, request.variables, asker.process[_JOB])

    def _drain_output(self, asker: Asker[None], request: DrainOutput) -> Later:
        self._drain(lambda: asker.reply(None))
        return LATER

    def _list_runs(self, asker: Asker[list[Run]], request: ListRuns) -> list[Run]:
        me = asker.process
        runs = self._events.runs()
        return [run for owner, run in runs if owner[_JOB] == me[_JOB] and owner != me]

    def _get_store_counts(
        self, asker: Asker[dict[str, int]], request: GetStoreCounts
    ) -> dict[str, int]:
        return self._store.accounting.counts()

    def _pull_object(self, asker: Asker[None], request: PullObject) -> Later:
        def done(failure: str) -> None:
            if failure:
                asker.fail(ObjectLostError("", failure))
            else:
                asker.reply(None)

        self._store.pull(request.name, request.size, asker.process, done, request.will_map)
        return LATER
