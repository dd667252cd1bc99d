"""Computes Dask's graphs by tasks whose results stay in the object store.

Dask walks the graph as it does for its own local schedulers: in its order, with its callbacks, and
it lets go of each piece when the last that needs it is done. What it holds of a piece is a
reference: pieces go from task to task and not through the caller, which gets what it asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import dask
from dask._task_spec import Alias, GraphNode, Task
from dask.local import get_async
from dask.sizeof import sizeof

import phalanx
from phalanx import ObjectRef
from phalanx.adapters.dask.hooks import Hooks

SHARED_FROM_BYTES = 100_000
"""A piece that the graph holds itself and of this size or more is put in the store once."""
AHEAD = 2
"""Tasks handed to the cluster for each of its CPUs: the next is there when one ends."""
OPTIONS = "phalanx"
"""The annotation that holds options of tasks, as in `dask.annotate(phalanx={"num_gpus": 1})`."""

_Batch = list[tuple[GraphNode, dict[Any, int]]]
"""Nodes that run one after the other, and where among a task's inputs each finds its own."""
_Done = list[tuple[Any, Any, bool]]
"""What Dask wants to know of nodes that are done: the key, (result, worker), whether it failed."""
_Known = tuple[bool, Any]
"""Whether a node's value is known without a task, and that value."""


def get(
    dsk: Any,
    keys: Any,
    *,
    num_workers: int | None = None,
    remote_args: Mapping[str, Any] | None = None,
    keep: bool = False,
    hooks: Hooks | None = None,
    **kwargs: Any,
) -> Any:
    """The values of `keys` (a key, or nested lists of them) of the graph: a scheduler for Dask.

    `remote_args` are options of all tasks, such as `{"num_cpus": 2}`; `dask.annotate(phalanx=...)`
    gives them for a part of a graph, or around this for all else. `num_workers` is how many tasks
    are handed to the cluster at once, by default twice as many as it has CPUs. With `keep` values
    stay in the store, and nodes that read them there are given: so `persist(scheduler="phalanx",
    keep=True)` holds a collection. Errors are of the classes that tasks raise. Who dies is tried
    again. `hooks` are called around tasks.
    """
    if not phalanx.is_initialized():
        phalanx.init()
    workers = num_workers or dask.config.get("num_workers", None) or _cpus() * AHEAD
    of_keys: dict[str, Any] = getattr(dsk, "__dask_annotations__", dict)()
    tasks = _Tasks(
        dict(remote_args or {}), _options(dask.get_annotations()), _options(of_keys), hooks
    )
    found = get_async(tasks.submit, workers, dsk, keys, **kwargs)
    if hooks is not None:
        hooks.submitted(found, dsk)
    result = _kept(keys, found) if keep else _values(found)
    if hooks is not None:
        hooks.finished(result)
    return result


def _options(annotations: Mapping[str, Any]) -> dict[Any, Any]:
    """What annotations say of tasks, also under the name that they have on Ray."""
    return {**annotations.get("ray_remote_args", {}), **annotations.get(OPTIONS, {})}


def enable(**more: Any) -> Any:
    """Make this the scheduler of everything that Dask computes; as a context manager, within it.

    Shuffles go from task to task, as the disk of one node is not that of others. `more` are
    further settings of `dask.config.set`.
    """
    return dask.config.set({"scheduler": get, "dataframe.shuffle.method": "tasks", **more})


class _Tasks:
    """The tasks of one computation."""

    def __init__(
        self,
        options: dict[str, Any],
        around: Mapping[str, Any],
        of_keys: Mapping[Any, Mapping[str, Any]],
        hooks: Hooks | None,
    ) -> None:
        """`of_keys`: options of single nodes, by their keys; `around`: of those that have none."""
        self._options = options
        self._around = around
        self._of_keys = of_keys
        self._hooks = hooks
        self._in_worker = None if hooks is None else hooks.in_worker()
        self._is_nested = phalanx.get_runtime_context().get_task_id() is not None
        self._run = phalanx.remote(_run)
        self._shared: dict[int, tuple[Any, ObjectRef[Any]]] = {}

    def submit(self, _: Callable[..., Any], each: Sequence[tuple[Any, ...]]) -> Future[_Done]:
        """Start nodes as one task; `each` is what Dask hands to its own workers for a node."""
        done: Future[_Done] = Future()
        known: _Done = []
        batch: _Batch = []
        inputs: list[Any] = []
        keys, given = [], []
        for key, (node, values), *_more in each:
            is_known, value = self._without_task(key, node, values)
            if is_known:
                known.append((key, (value, None), False))
                continue
            places = {name: len(inputs) + i for i, name in enumerate(values)}
            inputs += [self._in_store(value) for value in values.values()]
            batch.append((node, places))
            keys.append(key)
            given.append(values)
        if not batch:
            done.set_result(known)
            return done
        options = {**self._options, **self._of_keys.get(keys[0], self._around)}
        run = self._run.options(num_returns=1 + len(batch), name=_name(keys[0]), **options)
        worker, *results = run.remote(batch, self._in_worker, *inputs)
        del inputs
        if self._hooks is not None:
            for key, (node, _places), values, ref in zip(keys, batch, given, results, strict=True):
                self._hooks.after_submit(node, key, values, ref)
        if self._is_nested:
            # Who waits in Dask's loop keeps its CPU, which these may need: it waits for the values.
            done.set_result([*known, *_ran(keys, results, None)])
            return done
        started = worker.future()
        started.add_done_callback(lambda ended: _tell(done, ended, known, keys, results))
        return done

    def _without_task(self, key: Any, node: GraphNode, values: Mapping[Any, Any]) -> _Known:
        """The value of a node that needs no task, if it needs none."""
        if self._hooks is not None:
            value = self._hooks.in_place_of(node, key, values)
            if value is not None:
                return True, value
        if isinstance(node, Alias):
            return True, values[node.target]
        if isinstance(node, Task) and node.func is _read:
            return True, node.args[0]
        return False, None

    def _in_store(self, value: Any) -> Any:
        """Literal pieces of a graph go to many tasks: large ones are put once."""
        if isinstance(value, ObjectRef) or sizeof(value) < SHARED_FROM_BYTES:
            return value
        if id(value) not in self._shared:
            self._shared[id(value)] = (value, phalanx.put(value))
        return self._shared[id(value)][1]


def _run(batch: _Batch, hooks: Hooks | None, *inputs: Any) -> list[Any]:
    """In a worker: who it is, and the results of the nodes."""
    each = [(node, {name: inputs[i] for name, i in places.items()}) for node, places in batch]
    if hooks is None:
        return [os.getpid(), *(node(values) for node, values in each)]
    return [os.getpid(), *(hooks.run(node, values) for node, values in each)]


def _tell(
    done: Future[_Done], ended: Future[Any], known: _Done, keys: list[Any], results: list[Any]
) -> None:
    error = ended.exception()
    if error is not None:
        done.set_exception(error)
        return
    done.set_result([*known, *_ran(keys, results, ended.result())])


def _ran(keys: list[Any], results: list[Any], worker: Any) -> _Done:
    return [(key, (ref, worker), False) for key, ref in zip(keys, results, strict=True)]


def _kept(keys: Any, found: Any) -> Any:
    """Nodes that read references, in nested tuples."""
    if isinstance(keys, list):
        return tuple(_kept(key, one) for key, one in zip(keys, found, strict=True))
    return Task(keys, _read, found) if isinstance(found, ObjectRef) else found


def _read(ref: ObjectRef[Any]) -> Any:
    """In a worker, where Dask has made one node of this and what follows."""
    return phalanx.get(ref)


def _values(found: Any) -> Any:
    """References, in nested tuples, as their values, which all come at once."""
    refs: list[ObjectRef[Any]] = []

    def collect(one: Any) -> None:
        if isinstance(one, tuple):
            for inner in one:
                collect(inner)
        elif isinstance(one, ObjectRef):
            refs.append(one)

    collect(found)
    values = dict(zip(refs, map(_own, phalanx.get(refs)), strict=True))

    def replace(one: Any) -> Any:
        if isinstance(one, tuple):
            return tuple(replace(inner) for inner in one)
        return values[one] if isinstance(one, ObjectRef) else one

    return replace(found)


def _own(value: Any) -> Any:
    """What the caller may write to, as with Dask's own schedulers: arrays and frames that were
    read from the store are copied. Where that is too dear, `keep` leaves them there."""
    flags = getattr(value, "flags", None)
    is_frame = type(value).__module__.partition(".")[0] == "pandas"
    if is_frame or getattr(flags, "writeable", True) is False:
        copied = getattr(value, "copy", None)
        return value if copied is None else copied()
    return value


def _cpus() -> int:
    return max(1, int(phalanx.cluster_resources().get("CPU", 1)))


def _name(key: Any) -> str:
    """What listings show: `add-3f2c` and `('add-3f2c', 0, 1)` are both `add`."""
    text = str(key[0] if isinstance(key, tuple) and key else key)
    return text.rpartition("-")[0] or text
