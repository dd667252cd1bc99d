"""Dagster's jobs whose steps run on Phalanx. Dagster ships no suite for third-party executors."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from dagster import (
    AssetSelection,
    Backoff,
    DagsterInstance,
    Definitions,
    DynamicOut,
    DynamicOutput,
    Failure,
    RetryPolicy,
    asset,
    define_asset_job,
    execute_job,
    job,
    op,
    reconstructable,
)
from steps import LICENSE, check_place, find_place, on_a_machine, succeed_third

from phalanx.adapters.dagster import TAG, phalanx_executor

_machine = pytest.fixture(autouse=True, scope="module")(on_a_machine)


@pytest.fixture
def instance(tmp_path: Path):
    with DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def run(instance, made, config=None, **more):
    options = {"raise_on_error": False, **more}
    return execute_job(reconstructable(made), instance=instance, run_config=config, **options)


@op
def two():
    return 2


@op(tags={TAG: {"num_cpus": 0.5, **LICENSE}})
def double(value: int):
    return 2 * value, find_place()


@job(executor_def=phalanx_executor)
def chain():
    double(two())


def test_steps_run_in_other_processes_with_their_options(instance):
    with run(instance, chain) as result:
        assert result.success
        doubled, place = result.output_for_node("double")
    assert doubled == 4
    check_place(place)


@op
def fails():
    raise Failure("as told", metadata={"why": "a test"})


@op
def after(value):
    return value


@job(executor_def=phalanx_executor)
def failing():
    after(fails())
    two()


def test_an_error_fails_the_run_and_skips_what_needs_it(instance):
    with run(instance, failing) as result:
        assert not result.success
        [failure] = result.get_failed_step_keys()
        assert failure == "fails"
        message = result.failure_data_for_node("fails").error.message
        begun = {one.step_key for one in result.all_events if one.is_step_start}
        assert result.output_for_node("two") == 2
    assert "as told" in message
    assert begun == {"fails", "two"}


@op
def dies():
    os._exit(3)


@job(executor_def=phalanx_executor)
def dying():
    dies()


def test_a_worker_that_dies_fails_its_step(instance):
    with run(instance, dying) as result:
        assert not result.success
        message = result.failure_data_for_node("dies").error.message
    assert "exit code 3" in message


@op(
    config_schema={"path": str},
    retry_policy=RetryPolicy(max_retries=2, delay=0, backoff=Backoff.LINEAR),
)
def flaky(context):
    return succeed_third(Path(context.op_config["path"]))


@job(executor_def=phalanx_executor)
def retried():
    flaky()


def test_a_step_is_tried_again(instance, tmp_path: Path):
    counted = tmp_path / "tries"
    counted.mkdir()
    config = {"ops": {"flaky": {"config": {"path": str(counted)}}}}
    with run(instance, retried, config) as result:
        assert result.success
        assert result.output_for_node("flaky") == 2


@op(out=DynamicOut())
def each():
    for number in range(4):
        yield DynamicOutput(number, mapping_key=str(number))


@op
def square(value: int):
    return value * value


@op
def total(values: list[int]):
    return sum(values)


@job(executor_def=phalanx_executor)
def mapped():
    total(each().map(square).collect())


def test_steps_made_while_it_runs(instance):
    with run(instance, mapped, {"execution": {"config": {"max_concurrent": 2}}}) as result:
        assert result.success
        assert result.output_for_node("total") == 14


@job(executor_def=phalanx_executor)
def refused():
    two()


def test_options_that_tasks_do_not_have_say_so(instance):
    config = {"execution": {"config": {"remote_args": {"num_cups": 1}}}}
    with pytest.raises((TypeError, ValueError), match="num_cups"):
        run(instance, refused, config, raise_on_error=True)


@asset
def raw():
    return [1, 2, 3]


@asset
def cleaned(raw):
    return [value * 10 for value in raw]


def assets():
    selection = AssetSelection.assets(raw, cleaned)
    both = define_asset_job("assets", selection, executor_def=phalanx_executor)
    return Definitions(assets=[raw, cleaned], jobs=[both]).resolve_job_def("assets")


def test_assets(instance, tmp_path: Path):
    with run(instance, assets) as result:
        assert result.success
    stored = (tmp_path / "storage" / "cleaned").read_bytes()
    assert pickle.loads(stored) == [10, 20, 30]  # noqa: S301  # what its IO manager wrote
