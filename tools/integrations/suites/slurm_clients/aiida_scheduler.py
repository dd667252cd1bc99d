"""AiiDA's scheduler plug-in for Slurm, through its local transport: submit, list, details, end."""

from pathlib import Path

import pytest
from aiida.common.datastructures import CodeRunMode
from aiida.schedulers.datastructures import JobState, JobTemplate, JobTemplateCodeInfo
from aiida.schedulers.plugins.slurm import SlurmScheduler
from aiida.transports.plugins.local import LocalTransport
from steps_of_jobs import over, until


@pytest.fixture
def scheduler(directory):
    scheduler = SlurmScheduler()
    with LocalTransport(use_login_shell=False) as transport:
        scheduler.set_transport(transport)
        yield scheduler


def submit(scheduler, directory, line):
    template = JobTemplate()
    template.job_name, template.queue_name = "aiida", "default"
    template.max_wallclock_seconds, template.max_memory_kb = 600, 307200
    template.priority = "10"
    template.job_resource = scheduler.create_job_resource(
        num_machines=1, num_mpiprocs_per_machine=1
    )
    template.codes_info = [JobTemplateCodeInfo(cmdline_params=["sh", "-c", line])]
    template.codes_run_mode = CodeRunMode.SERIAL
    Path("_aiidasubmit.sh").write_text(scheduler.get_submit_script(template))
    return scheduler.submit_job(str(directory), "_aiidasubmit.sh")


def test_a_job_runs_to_its_end_and_has_details(scheduler, directory):
    number = submit(scheduler, directory, "echo here > words")
    until(lambda: number not in [job.job_id for job in scheduler.get_jobs(jobs=[number])])
    assert over(number) == "COMPLETED"
    assert Path("words").read_text() == "here\n"
    details = scheduler.get_detailed_job_info(number)
    assert (details["retval"], details["stderr"]) == (0, "")
    assert number in details["stdout"]


def test_a_job_that_runs_is_listed_and_killed(scheduler, directory):
    number = submit(scheduler, directory, "sleep 600")

    def listed():
        return scheduler.get_jobs(jobs=[number], as_dict=True).get(number)

    job = until(lambda: (job := listed()) and job.job_state == JobState.RUNNING and job)
    assert (job.title, job.queue_name, job.num_machines) == ("aiida", "default", 1)
    assert job.requested_wallclock_time_seconds == 600
    assert scheduler.kill_job(number)
    assert over(number) == "CANCELLED"
