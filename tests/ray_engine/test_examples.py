"""Programs that were written for the runtime run here without a change: jobs and scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.polling import eventually

from phalanx.protocol.requests.jobs import DeleteJob, ListJobs

from .cluster import PATIENCE_S

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "jobs"
PROGRAM = re.compile(r"```python\n(.*?)```", re.S)


@pytest.mark.parametrize(
    "name", ["two-groups", "data-parallel", "master-and-workers", "one-after-another"]
)
def test_the_examples_complete(phx, name):
    phx.submit((EXAMPLES / f"{name}.yaml").read_text())
    assert phx.until(name)["state"] == "Completed"


def test_the_example_of_a_flow_runs_its_steps_in_order(phx):
    phx.submit((EXAMPLES / "flow.yaml").read_text())

    def both():
        rows = {row["name"]: row for row in phx.ask(ListJobs())}
        states = [row["state"] for row in rows.values()]
        return rows if states == ["Completed", "Completed"] else None

    rows = eventually(both)
    first, second = rows["prepare-then-train-prepare"], rows["prepare-then-train-train"]
    assert first["finished"] <= second["submitted"]
    phx.ask(DeleteJob("default/prepare-then-train"))


def programs(page):
    """Return the programs of a page that do not depend on the size of their machine."""
    texts = PROGRAM.findall((ROOT / page).read_text())
    return [text for text in texts if "phalanx.init()" in text or '"ray:auto"' in text]


@pytest.mark.parametrize("text", programs("README.md") + programs("docs/howto/ray.md"))
def test_programs_of_the_pages_run_on_a_cluster(phx, text, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(text)
    address = f"ray:{phx.cluster.address}"
    shown = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PHALANX_ADDRESS": address, "RAY_AUTH_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert "328350" in shown.stdout or "[0, 1, 4, 9]" in shown.stdout
