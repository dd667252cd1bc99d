"""A job of Dagster whose steps run on Phalanx, here or on a running cluster.

pip install 'phalanx[dagster]'
export DAGSTER_HOME=$(mktemp -d)
dagster job execute -f examples/integrations/dagster_job.py
"""

from __future__ import annotations

try:
    from dagster import job, op

    from phalanx.adapters.dagster import TAG, phalanx_executor
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install 'phalanx[dagster]'") from None


@op
def prepare() -> list[int]:
    return list(range(10))


@op(tags={TAG: {"num_cpus": 0.5}})
def score(values: list[int]) -> int:
    return sum(value * value for value in values)


@job(executor_def=phalanx_executor)
def search() -> None:
    score(prepare())
