"""simple-slurm: a script's options, an array, a dependency, srun, the queue, and ends."""

from simple_slurm import Slurm
from steps_of_jobs import over, state_of, until


def test_an_array_and_a_job_that_depends_on_it(directory):
    array = Slurm(array=range(1, 4), job_name="squares", output="out-%a", cpus_per_task=1)
    first = array.sbatch(f"echo $(({Slurm.SLURM_ARRAY_TASK_ID} * {Slurm.SLURM_ARRAY_TASK_ID}))")
    after = Slurm(dependency={"afterok": first}, output="sum", time="0-00:10:00")
    assert over(after.sbatch("cat out-1 out-2 out-3")) == "COMPLETED"
    assert (directory / "sum").read_text().split() == ["1", "4", "9"]


def test_srun_waits_for_its_command(directory):
    assert Slurm(ntasks=2).srun("echo one >> lines") == 0
    assert (directory / "lines").read_text() == "one\n" * 2


def test_the_queue_lists_a_job_until_it_is_cancelled():
    slurm = Slurm(job_name="sleeper", mem="300", gres="gpu:1")
    number = slurm.sbatch("sleep 600")
    until(lambda: state_of(number) == "RUNNING")
    slurm.squeue.update_squeue()
    listed = slurm.squeue.jobs[number]
    assert (listed["NAME"], listed["ST"], listed["MIN_MEMORY"]) == ("sleeper", "R", "300M")
    assert listed["TRES_PER_NODE"].endswith("gpu:1")
    slurm.scancel.cancel_job(number)
    assert over(number) == "CANCELLED"
    slurm.squeue.update_squeue()
    assert number not in slurm.squeue.jobs
