"""slurmpy: a job, a job that depends on it, and a job that runs again after a failure."""

from slurmpy import Slurm
from steps_of_jobs import over


def test_a_job_depends_on_another(directory):
    first = Slurm("first", {"partition": "default", "cpus-per-task": "1"})
    number = first.run("echo $word > words", cmd_kwargs={"word": "here"})
    after = Slurm("second", {"partition": "default"}).run("cat words >> both", depends_on=[number])
    assert over(after) == "COMPLETED"
    assert (directory / "both").read_text() == "here\n"


def test_a_job_is_tried_again_where_it_fails(directory):
    number = Slurm("tried").run("test -e mark && touch good || { touch mark; exit 1; }", tries=2)
    assert over(number) == "FAILED"
    assert over(number + 1) == "COMPLETED"
    assert (directory / "good").exists()
