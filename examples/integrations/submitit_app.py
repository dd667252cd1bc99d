"""Functions as jobs by submitit, on a cluster that `phalanx start --head` has started.

    pip install 'phalanx[submitit]'
    phalanx start --head
    python examples/integrations/submitit_app.py

Each job writes a checkpoint when its place is taken away or its time is nearly over, and continues
from there.
"""

from __future__ import annotations

import time

try:
    import submitit
except ModuleNotFoundError as error:
    raise SystemExit(f"This example needs {error.name}: pip install 'phalanx[submitit]'") from None


class Count:
    """Counts up to a number. The count is kept when the job is interrupted."""

    def __init__(self) -> None:
        self.reached = 0

    def __call__(self, most: int) -> str:
        while self.reached < most:
            self.reached += 1
            time.sleep(0.1)
        return f"counted to {self.reached}"

    def checkpoint(self, most: int) -> submitit.helpers.DelayedSubmission:
        """Return the job that is submitted in place of this one after an interruption."""
        return submitit.helpers.DelayedSubmission(self, most)


if __name__ == "__main__":
    executor = submitit.AutoExecutor("submitit_jobs", cluster="phalanx")
    executor.update_parameters(timeout_min=10, cpus_per_task=1, name="count")
    print([job.result() for job in executor.map_array(Count(), [3, 5, 8])])
