"""`phalanx scheduler`, on a cluster that runs as daemons."""

from __future__ import annotations

import json


def test_rules_are_shown_changed_and_reset_and_outlive_the_head(machine, tmp_path):
    machine.start_head("--num-cpus", "2")
    shown = machine.done("scheduler", "show")
    assert "those that come with the cluster" in shown
    file = tmp_path / "rules.yaml"
    file.write_text(shown.replace("- name: binpack", "- name: reservation"))
    assert f"set from {file}" in machine.done("scheduler", "set", str(file))
    plugins = json.loads(machine.done("scheduler", "show", "--json"))["plugins"]
    assert "reservation" in plugins
    assert "binpack" not in plugins
    assert machine.done("run", "--", "echo", "it runs") == "it runs\n"
    file.write_text("actions: allocate\ntiers: []\n")
    refused = machine.phalanx("scheduler", "set", str(file))
    assert refused.returncode == 1
    assert f"{file}: these rules lack plugin gang, plugin predicates" in refused.stderr
    assert machine.phalanx("scheduler", "set", "no-such-file").returncode == 2
    assert "reservation" in machine.done("scheduler", "show")
    assert "those that come with the cluster" in machine.done("scheduler", "reset")
