"""Programs whose current directory is removed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
import sys

import phalanx

os.rmdir(os.getcwd())
phalanx.init(address="local", num_cpus=1)


@phalanx.remote
def where():
    return os.getcwd(), os.readlink(f"/proc/{os.getppid()}/cwd")


print(phalanx.get(where.remote()))
"""


def run_in(directory, *arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_workers_of_a_program_in_a_removed_directory_start_in_the_root(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    directory = tmp_path / "gone"
    directory.mkdir()
    done = run_in(directory, str(program))
    assert (done.returncode, done.stdout) == (0, "('/', '/')\n"), done.stderr


LEAVES = """
import os
import sys

import phalanx
from phalanx.adapters.ray.modules.worker import global_worker

began = os.getcwd()
phalanx.init(address="local", num_cpus=1)
inside = global_worker.node.get_session_dir_path() + "/mine"
os.makedirs(inside)
os.chdir(inside)
phalanx.shutdown()
print(os.getcwd() == began)
"""

REMOVED_BEFORE = """
import os
import shutil
import sys

from phalanx.runtime.driver.own_node import _is_below

os.makedirs("session/mine")
session = os.path.abspath("session")
os.chdir("session/mine")
shutil.rmtree(session)
print(_is_below(session), _is_below("/proc"))
"""


def test_a_program_in_its_sessions_directory_stands_where_it_began_once_that_is_gone(tmp_path):
    """Tune's trainables change into the session's directory, also in the process of the program
    itself.
    """
    done = run_in(tmp_path, "-c", LEAVES)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_program_is_known_to_stand_in_a_session_that_its_node_was_quick_to_remove(tmp_path):
    done = run_in(tmp_path, "-c", REMOVED_BEFORE)
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr
