"""batchspawner's SlurmSpawner: the commands that it runs for the hub, and how it reads their
output.
"""

import asyncio
import os
from types import SimpleNamespace

from batchspawner import JobStatus, SlurmSpawner
from steps_of_jobs import over, until


class Spawner(SlurmSpawner):
    """A spawner without a hub. Its commands get this process's variables."""

    def get_env(self):
        return dict(os.environ)


def test_a_job_is_submitted_polled_and_cancelled():
    spawner = Spawner()
    spawner.exec_prefix = ""
    spawner.req_partition, spawner.req_runtime, spawner.req_memory = "default", "10", "300"
    spawner.user = SimpleNamespace(name="root", url="/")
    spawner.batch_script = "#!/bin/sh\n#SBATCH --mem={memory}\nsleep 600\n"

    async def begin():
        script = spawner.batch_script.format(memory=spawner.req_memory)
        out = await spawner.run_command(spawner.batch_submit_cmd, input=script)
        return spawner.parse_job_id(out)

    def poll():
        return asyncio.run(spawner.query_job_status())

    spawner.job_id = asyncio.run(begin())
    until(lambda: poll() == JobStatus.RUNNING)
    assert spawner.state_gethost() == "127.0.0.1"
    asyncio.run(spawner.cancel_batch_job())
    assert over(spawner.job_id) == "CANCELLED"
    until(lambda: poll() in (JobStatus.NOTFOUND, JobStatus.UNKNOWN))
