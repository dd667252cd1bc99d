"""Dask on Phalanx: graphs whose intermediate results stay in the object store, and Dask's own
cluster as a gang.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.bag
import distributed
import numpy as np
import pandas as pd
import pytest
from dask._task_spec import Task, TaskRef
from dask.callbacks import Callback
from dask.utils_test import GetFunctionTestMixin
from tests.polling import eventually

import phalanx
from phalanx.adapters.dask import Cluster, enable, get
from phalanx.adapters.dask.hooks import Hooks

EXAMPLES = Path(__file__).parents[3] / "examples" / "integrations"


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    phalanx.shutdown()
    phalanx.init("local", num_cpus=3, resources={"scanner": 1})
    yield
    phalanx.shutdown()


class TestGet(GetFunctionTestMixin):  # type: ignore[misc]  # untyped
    """Dask's own tests of functions that compute task graphs."""

    get = staticmethod(get)

    @pytest.mark.slow
    def test_get_stack_limit(self) -> None:
        """This test of Dask's computes a chain of 10,000 tasks, which is slow;
        `test_a_chain_longer_than_pythons_stack` has a shorter one.
        """
        super().test_get_stack_limit()


def test_a_chain_longer_than_pythons_stack() -> None:
    length = sys.getrecursionlimit() + 100
    chain: dict[str, Any] = {f"x{n}": (abs, f"x{n - 1}") for n in range(1, length + 1)}
    assert get({"x0": -3, **chain}, f"x{length}") == 3


def test_pieces_go_from_task_to_task_and_not_through_the_caller() -> None:
    driver = os.getpid()

    def arrive() -> Piece:
        assert os.getpid() != driver, "it came through the caller"
        return Piece()

    class Piece:
        def __reduce__(self) -> tuple[Any, ...]:
            return arrive, ()

    made = dask.delayed(lambda: Piece())()
    seen = dask.delayed(lambda piece: type(piece).__name__)(made)
    assert seen.compute(scheduler="phalanx") == "Piece"


def test_it_can_be_the_default_and_options_of_tasks_are_given_by_annotations() -> None:
    def resources() -> dict[str, float]:
        return phalanx.get_runtime_context().get_assigned_resources()

    with enable():
        with dask.annotate(phalanx={"resources": {"scanner": 1}}):
            scanning = dask.delayed(resources)()
        assert dask.compute(scanning, optimize_graph=False)[0]["scanner"] == 1
    assert dask.delayed(resources)().compute(scheduler=get, remote_args={"num_cpus": 2}) == {
        "CPU": 2.0
    }


def test_results_may_be_written_to() -> None:
    numbers = dask.delayed(np.arange)(5.0).compute(scheduler="phalanx")
    numbers[0] = 7
    frame = dask.delayed(pd.DataFrame)({"a": [1.0, 2.0]}).compute(scheduler="phalanx")
    frame.loc[0, "a"] = 7
    assert (numbers[0], frame["a"].sum()) == (7, 9)


def test_errors_are_the_users_own() -> None:
    with pytest.raises(ZeroDivisionError):
        dask.delayed(divmod)(1, 0).compute(scheduler="phalanx")


def test_callbacks_are_called() -> None:
    keys: list[object] = []
    with Callback(posttask=lambda key, *_: keys.append(key)):
        dask.delayed(abs)(-1, dask_key_name="one").compute(scheduler="phalanx")
    assert keys == ["one"]


def test_what_is_persisted_can_stay_in_the_store() -> None:
    bag = dask.bag.from_sequence(range(10), npartitions=2).map(lambda value: value * value)
    kept = bag.persist(scheduler="phalanx", keep=True)
    assert all(isinstance(node.args[0], phalanx.ObjectRef) for node in dict(kept.dask).values())
    assert kept.sum().compute(scheduler="phalanx") == 285
    assert kept.compute(scheduler="phalanx") == [value * value for value in range(10)]


def test_a_cluster_is_a_gang_that_grows_and_shrinks() -> None:
    with Cluster(1) as cluster, distributed.Client(cluster) as client:
        assert client.submit(os.getpid).result(60) != os.getpid()
        assert cluster.dashboard_link.startswith("http://127.0.0.1:")
        cluster.scale(2)
        client.wait_for_workers(2, timeout=60)
        assert phalanx.available_resources().get("CPU", 0) == 0
        cluster.scale(1)
        eventually(lambda: len(client.scheduler_info()["workers"]) == 1)
        eventually(lambda: phalanx.available_resources().get("CPU", 0) == 1)
        assert client.submit(pow, 2, 3).result(60) == 8
    eventually(lambda: phalanx.available_resources().get("CPU", 0) == 3)


def test_a_cluster_that_never_fits_says_so() -> None:
    with pytest.raises(RuntimeError, match="could never"):
        Cluster(8)


@pytest.mark.parametrize("name", ["dask_collections.py", "dask_cluster.py"])
def test_the_examples_run(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "local"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("1000 rolls")


def test_a_task_that_computes_a_graph_lends_its_cpu_to_the_tasks_of_that() -> None:
    @phalanx.remote(num_cpus=3)
    def compute() -> int:
        total: int = dask.delayed(sum)([dask.delayed(abs)(-1), 2]).compute(scheduler=get)
        return total

    assert phalanx.get(compute.remote(), timeout=60) == 3


class TestHooks:
    """Functions that run before and after the tasks of a computation."""

    def test_all_are_called(self) -> None:
        told: list[Any] = []
        hooks = Hooks(
            presubmit=[lambda node, key, inputs: None],
            postsubmit=[lambda node, key, inputs, ref: told.append((key, list(inputs), ref))],
            pretask=[lambda key, inputs: (key, inputs), None],
            posttask=[_check, None],
            postsubmit_all=[lambda refs, graph: told.append(refs)],
            finish=[told.append],
        )
        graph = {"one": Task("one", abs, -1), "two": Task("two", abs, TaskRef("one"))}
        assert get(graph, "two", hooks=hooks) == 1
        (first, second, refs, result) = told
        assert (first[0], second[:2], result) == ("one", ("two", ["one"]), 1)
        assert refs == second[2]

    def test_a_value_in_place_of_a_task(self) -> None:
        hooks = Hooks(presubmit=[lambda node, key, inputs: 7 if key == "one" else None])
        graph = {"one": Task("one", abs, "no number"), "two": Task("two", abs, TaskRef("one"))}
        assert get(graph, "two", hooks=hooks) == 7

    def test_an_error_of_one_is_the_task_s(self) -> None:
        def raises(key: Any, inputs: Any) -> None:
            raise KeyError(key)

        hooks = Hooks(pretask=[raises], posttask=[None])
        with pytest.raises(KeyError, match="one"):
            get({"one": Task("one", abs, -1)}, "one", hooks=hooks)


def _check(key: Any, result: Any, state: Any) -> None:
    assert (key, result) == (state[0], 1), state
