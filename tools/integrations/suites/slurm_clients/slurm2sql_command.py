"""slurm2sql: the history of jobs as a table in SQLite, and slurm2sql's efficiencies of jobs."""

import os
import sqlite3
import sys

from steps_of_jobs import done, over, submit

HERE = os.path.dirname(sys.executable)


def test_the_account_becomes_a_table():
    number = submit("--mem=300", "--gres=gpu:1", "-J", "counted", command="sleep 2")
    over(number)
    done(os.path.join(HERE, "slurm2sql"), "jobs.db", "--history-days=1", "-a")
    rows = sqlite3.connect("jobs.db").execute(
        "select JobName, State, NCPUS, ReqMemNode, NGpus from slurm where JobID = ?", (number,)
    ).fetchall()  # fmt: skip
    assert rows == [("counted", "COMPLETED", 1, 300 * 2**20, 1)]
    assert number in done(os.path.join(HERE, "seff2"), number)
    assert "COMPLETED" in done(os.path.join(HERE, "sacct2"), "-j", number)
