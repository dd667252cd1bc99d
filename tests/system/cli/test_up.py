"""`phalanx up` and `phalanx down` on several machines."""

from __future__ import annotations

import json
import os
import signal
import stat

import pytest
from tests.polling import eventually
from tests.system.cli.machines_over_ssh import HERE, lab_with, wheel


def test_a_cluster_comes_up_is_kept_and_goes() -> None:
    with lab_with(HERE) as lab:
        said = lab.phalanx("up", str(lab.file), "--dry-run")
        assert "1. start the head on alpha\n2. send the token on beta\n" in said
        assert "3. start the node on alpha, beta\n" in said
        assert lab.daemons("alpha") == {}

        said = lab.phalanx("up", str(lab.file))
        assert "alpha: started the head, started the node\n" in said
        assert "beta: got the token, started the node\n" in said
        assert set(lab.daemons("alpha")) == {"head", "node"}
        assert lab.daemons("beta")["node"].name == "beta"
        rows = {row["name"]: row for row in json.loads(lab.on("beta", "nodes", "--json"))}
        assert set(rows) == {"alpha", "beta"}
        assert rows["alpha"]["labels"]["first"] == "yes"
        assert "first" not in rows["beta"]["labels"]

        token = (lab.hosts / "alpha" / ".phalanx" / "token").read_text().strip()
        copied = lab.hosts / "beta" / ".phalanx" / "token"
        assert copied.read_text().strip() == token
        private = [copied, *(lab.hosts / "beta" / ".phalanx" / "up").iterdir()]
        assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
        assert token not in (lab.hosts / "commands").read_text() + said

        before = {name: lab.daemons(name) for name in ("alpha", "beta")}
        said = lab.phalanx("up", str(lab.file))
        assert "alpha: nothing to do\nbeta: nothing to do\n" in said
        os.kill(before["beta"]["node"].pid, signal.SIGKILL)
        eventually(lambda: lab.daemons("beta") == {})
        lab.write(HERE, '[machines.gamma]\nhost = "gamma"\naddress = "127.0.0.1"\n')
        said = lab.phalanx("up", str(lab.file), code=1)
        assert "beta: started the node\n" in said
        assert "gamma: FAILED: ssh failed (255): ssh: connect to host gamma port 22: No rou" in said
        assert "1 machine failed." in said
        assert lab.daemons("alpha") == before["alpha"]

        said = lab.phalanx("down", str(lab.file), "alpha", "beta")
        assert "alpha: ended its daemons\nbeta: ended its daemons\n" in said
        assert lab.daemons("alpha") == lab.daemons("beta") == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_software_is_installed_and_replaced_while_a_job_runs() -> None:
    with lab_with(HERE) as lab:
        old, new = wheel(lab.directory, "old"), wheel(lab.directory, "new")
        lab.write(f'package = "{old}"\nvenv = "~/software"')
        assert "installed phalanx-0.2.0-py3-none-any.whl, started the head" in lab.phalanx(
            "up", str(lab.file)
        )
        place = lab.hosts / "beta" / "software"
        former = place.resolve()
        go = lab.directory / "go"
        waits = f"echo begins; until [ -e {go} ]; do sleep 0.1; done; echo ends; exit 3"
        lab.on("alpha", "run", "--detach", "--name", "waits", "--", "sh", "-c", waits)
        eventually(lambda: lab.job("waits")["state"] == "Running")
        before = {name: lab.daemons(name) for name in ("alpha", "beta")}

        lab.write(f'package = "{new}"\nvenv = "~/software"')
        said = lab.phalanx("up", str(lab.file), code=1)
        assert "alpha, beta: other software runs there than the file names." in said
        assert {name: lab.daemons(name) for name in ("alpha", "beta")} == before
        said = lab.phalanx("up", "--upgrade", str(lab.file))
        assert "alpha: installed phalanx-0.2.0-py3-none-any.whl, started the head's proc" in said
        assert place.resolve() != former
        assert lab.daemons("alpha")["head"].pid != before["alpha"]["head"].pid
        for name in ("alpha", "beta"):
            now, then = lab.daemons(name)["node"], before[name]["node"]
            assert (now.pid, now.node_id == then.node_id) == (then.pid, False)
        assert "nothing to do" in lab.phalanx("up", "--upgrade", str(lab.file))

        assert lab.job("waits")["state"] == "Running"
        go.touch()
        eventually(lambda: lab.job("waits")["state"] == "Failed")
        assert lab.on("alpha", "logs", "waits") == "begins\nends\n"

        lab.write(f'package = "{lab.directory}/none-1.0-py3-none-any.whl"')
        assert "No such file or directory" in lab.phalanx("up", str(lab.file), code=2)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_failed_installation_shows_the_last_lines_of_pip_and_starts_nothing() -> None:
    with lab_with('package = "no-such-package==9"\npip = ["--no-index"]') as lab:
        said = lab.phalanx("up", str(lab.file), code=1)
        assert "alpha: FAILED: pip install failed:\n" in said
        assert "    ERROR: No matching distribution found for no-such-package==9" in said
        assert lab.daemons("alpha") == {}
