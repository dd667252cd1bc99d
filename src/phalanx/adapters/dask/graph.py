"""A scheduler that computes Dask's graphs by tasks whose results stay in the object store. Dask
walks the graph as for its own local schedulers, in the same order and with the same callbacks. Dask
holds only a reference to each piece, and releases the reference when the last task that needs the
piece is done. Pieces are passed from task to task, and not through the caller, which gets only the
pieces that it asked for.
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
"""The size in bytes from which a value in the graph is put into the store once, instead of being
sent with each task.
"""
AHEAD = 2
"""The number of tasks per CPU of the cluster that are submitted at a time. With more than one task
per CPU, another task is ready as soon as one ends.
"""
OPTIONS = "phalanx"
"""The annotation that holds options of tasks, as in `dask.annotate(phalanx={"num_gpus": 1})`."""

_Batch = list[tuple[GraphNode, dict[Any, int]]]
"""The graph nodes that one task runs one after another, each with the positions of its inputs among
the task's inputs.
"""
_Done = list[tuple[Any, Any, bool]]
"""The data that Dask expects for each graph node that is done: its key, (result, worker), and
whether it failed.
"""
_Known = tuple[bool, Any]
"""Whether a graph node's value is known without a task, and the value."""


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
    """Compute the values of `keys` in the graph `dsk`, as a scheduler for Dask. `keys` is a key, or
    nested lists of keys. `remote_args` are options of all tasks, such as `{"num_cpus": 2}`.
    `dask.annotate(phalanx=...)` sets options for the nodes that are created inside its block. If
    this call is inside the block, the options apply to all nodes without options of their own.
    `num_workers` is the number of submitted tasks at a time, by default twice the cluster's number
    of CPUs. With `keep`, values stay in the store, and the result consists of graph nodes that read
    the values. So `persist(scheduler="phalanx", keep=True)` keeps a collection in the store. Errors
    have the classes that tasks raise. A task whose worker dies is retried. `hooks` are called
    around tasks.
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
    """Return the options of tasks in the annotations. The options may be under Phalanx's name or
    under Ray's.
    """
    return {**annotations.get("ray_remote_args", {}), **annotations.get(OPTIONS, {})}


def enable(**more: Any) -> Any:
    """Make Phalanx's scheduler Dask's default: permanently or, as a context manager, inside its
    block. Shuffles then pass data from task to task, because nodes do not share a disk. `more` are
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
        """`of_keys`: the options of single nodes of the graph, by the nodes' keys. `around`: the
        options of all other nodes of the graph.
        """
        self._options = options
        self._around = around
        self._of_keys = of_keys
        self._hooks = hooks
        self._in_worker = None if hooks is None else hooks.in_worker()
        self._is_nested = phalanx.get_runtime_context().get_task_id() is not None
        self._run = phalanx.remote(_run)
        self._shared: dict[int, tuple[Any, ObjectRef[Any]]] = {}

    def submit(self, _: Callable[..., Any], each: Sequence[tuple[Any, ...]]) -> Future[_Done]:
        """Start nodes of the graph as one task. `each` has, for each node, the data that Dask
        passes to its own workers.
        """
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
            # A task that waits in Dask's loop keeps its CPU, which these tasks may need. Report
            # these tasks as done at once, so that the waiting task waits for their values instead.
            done.set_result([*known, *_ran(keys, results, None)])
            return done
        started = worker.future()
        started.add_done_callback(lambda ended: _tell(done, ended, known, keys, results))
        return done

    def _without_task(self, key: Any, node: GraphNode, values: Mapping[Any, Any]) -> _Known:
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
        """Return a value as an argument of tasks: the value itself, or a reference if the value is
        large. Many tasks may need a large value, so it is put into the store one time only.
        """
        if isinstance(value, ObjectRef) or sizeof(value) < SHARED_FROM_BYTES:
            return value
        if id(value) not in self._shared:
            self._shared[id(value)] = (value, phalanx.put(value))
        return self._shared[id(value)][1]


def _run(batch: _Batch, hooks: Hooks | None, *inputs: Any) -> list[Any]:
    """Run nodes of the graph in a worker. Returns the worker's process id and the results."""
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
    """Return a graph node for each reference in `found`, which gives the reference's value when
    Dask runs it. The graph nodes are in nested tuples, as `keys` are in nested lists.
    """
    if isinstance(keys, list):
        return tuple(_kept(key, one) for key, one in zip(keys, found, strict=True))
    return Task(keys, _read, found) if isinstance(found, ObjectRef) else found


def _read(ref: ObjectRef[Any]) -> Any:
    """Return the value of a reference. This runs in a worker only if Dask has fused the graph node
    that reads the reference with later ones.
    """
    return phalanx.get(ref)


def _values(found: Any) -> Any:
    """Return the nested tuples `found`, with each reference replaced by its value. All values are
    fetched in one call.
    """
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
    """Return a value that the caller may modify, as with Dask's own schedulers.

    Arrays and data frames that were read from the store are copied. If copies cost too much, `keep`
    avoids them.
    """
    flags = getattr(value, "flags", None)
    is_frame = type(value).__module__.partition(".")[0] == "pandas"
    if is_frame or getattr(flags, "writeable", True) is False:
        copied = getattr(value, "copy", None)
        return value if copied is None else copied()
    return value


def _cpus() -> int:
    return max(1, int(phalanx.cluster_resources().get("CPU", 1)))


def _name(key: Any) -> str:
    """Return the name of a key's task in listings: `add` for both `add-3f2c` and `('add-3f2c', 0,
    1)`.
    """
    text = str(key[0] if isinstance(key, tuple) and key else key)
    return text.rpartition("-")[0] or text
