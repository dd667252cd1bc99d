"""slurm-magic: a cell that is a batch script, and tables of its commands."""

from IPython.testing.globalipapp import start_ipython
from steps_of_jobs import over, submit


def test_a_cell_is_submitted_and_tables_are_read(directory):
    shell = start_ipython()
    shell.run_line_magic("load_ext", "slurm_magic")
    said = shell.run_cell_magic("sbatch", "-J cell", "#!/bin/sh\necho here > words\n")
    number = said.split()[-1]
    assert over(number) == "COMPLETED"
    assert (directory / "words").read_text() == "here\n"
    waiting = submit("-H")
    queue = shell.run_line_magic("squeue", "")
    assert waiting in [str(one) for one in queue["JOBID"]]
    account = shell.run_line_magic("sacct", f"-j {number} -P")
    assert "JobID" in "".join(account.columns)
    assert "NODELIST" in shell.run_line_magic("sinfo", "").columns
    shell.run_line_magic("scancel", waiting)
    assert over(waiting) == "CANCELLED"
