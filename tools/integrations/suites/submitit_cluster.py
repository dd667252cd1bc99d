"""submitit's tests of its local executor, run on Phalanx's executor and a cluster of one node."""

import pytest
from submitit.conftest import weird_tmp_path  # noqa: F401
from submitit.local import local
from submitit.local import test_local as theirs

from phalanx.adapters.submitit import PhalanxExecutor, PhalanxJob

OF_PROCESSES = {"test_killed", "test_make_subprocess", "test_cancel", "test_long_running_job"}
"""The tests that are left out: they need the Popen objects and process ids of the local controller,
which a cluster lacks, or they are slow.
"""


@pytest.fixture(autouse=True)
def _ours(monkeypatch, cluster):
    monkeypatch.setattr(local, "LocalExecutor", PhalanxExecutor)
    monkeypatch.setattr(local, "LocalJob", PhalanxJob)


for _name, _test in vars(theirs).items():
    if _name.startswith("test_") and callable(_test) and _name not in OF_PROCESSES:
        globals()[_name] = _test
