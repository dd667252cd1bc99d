"""pysqa's queue adapter with its own template for Slurm: submit, list, and delete."""

from pathlib import Path

from pysqa import QueueAdapter
from steps_of_jobs import over, until


def test_jobs_are_submitted_listed_and_deleted(directory):
    queue = QueueAdapter(queue_type="SLURM")
    asked = {"partition": "default", "cores": 1, "working_directory": str(directory)}
    first = queue.submit_job(job_name="first", command="echo here > words", **asked)
    after = queue.submit_job(
        job_name="after", command="sleep 600", dependency_list=[str(first)], **asked
    )
    assert over(first) == "COMPLETED"
    assert Path("words").read_text() == "here\n"
    until(lambda: queue.get_status_of_job(process_id=after) == "running")
    table = queue.get_status_of_my_jobs()
    row = table[table.jobid == after].to_dict("records")[0]
    assert (row["jobname"].strip(), row["working_directory"]) == ("after", str(directory))
    queue.delete_job(process_id=after)
    assert over(after) == "CANCELLED"
    assert queue.get_status_of_job(process_id=after) is None
