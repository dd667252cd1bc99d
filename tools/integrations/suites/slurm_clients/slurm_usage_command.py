"""slurm-usage: the current use, the nodes, and the data that it collects for each day."""

import os
import sys

from steps_of_jobs import done, over, submit

USAGE = os.path.join(os.path.dirname(sys.executable), "slurm-usage")


def test_use_is_gathered_and_shown():
    over(submit("--mem=300", command="sleep 2"))
    submit("--gres=gpu:1", command="sleep 600")
    assert "root" in done(USAGE, "current")
    assert "default" in done(USAGE, "current")
    done(USAGE, "nodes")
    done(USAGE, "test")
    done(USAGE, "collect", "--days", "1", "--data-dir", "data", "--no-summary")
