"""FireWorks' queue adapter with FireWorks' own template for Slurm: submit, count, and the limit of
jobs.
"""

import getpass
from pathlib import Path

from fireworks.user_objects.queue_adapters.common_adapter import CommonAdapter
from steps_of_jobs import done, over


def adapter(launch):
    options = {"nodes": 1, "walltime": "00:10:00", "queue": "default", "job_name": "rocket"}
    return CommonAdapter(
        "SLURM", "slurm", rocket_launch=launch, launch_dir=str(Path.cwd()), timeout=60, **options
    )


def test_a_launch_is_a_job_that_is_counted(directory):
    one = adapter("sleep 600")
    script = directory / "launch.sh"
    before = one.get_njobs_in_queue(getpass.getuser())
    script.write_text(one.get_script_str(str(directory)))
    number = one.submit_to_queue(str(script))
    assert one.get_njobs_in_queue(getpass.getuser()) == before + 1
    done("scancel", str(number))
    assert over(number) == "CANCELLED"


def test_a_launch_writes_where_it_was_launched(directory):
    one = adapter("echo here > words")
    script = directory / "launch.sh"
    script.write_text(one.get_script_str(str(directory)))
    number = one.submit_to_queue(str(script))
    assert over(number) == "COMPLETED"
    assert Path("words").read_text() == "here\n"
    assert Path(f"rocket-{number}.out").exists()
