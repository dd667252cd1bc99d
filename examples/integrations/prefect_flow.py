"""A flow of Prefect whose tasks run on Phalanx, here or on a running cluster.

pip install 'phalanx[prefect]'
python examples/integrations/prefect_flow.py
"""

from __future__ import annotations

try:
    from prefect import flow, task

    from phalanx.adapters.prefect import PhalanxTaskRunner, remote_options
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install 'phalanx[prefect]'") from None


@task
def prepare(part: int) -> list[int]:
    return list(range(part * 10, part * 10 + 10))


@task(retries=2)
def score(values: list[int]) -> int:
    return sum(value * value for value in values)


@flow(task_runner=PhalanxTaskRunner(remote_args={"num_cpus": 1}))
def search(parts: int) -> int:
    prepared = prepare.map(range(parts))
    with remote_options(num_cpus=0.5):
        scores = score.map(prepared)
    return max(scores.result())


if __name__ == "__main__":
    print("best:", search(4))
