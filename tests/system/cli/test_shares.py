"""`phalanx shares`, `set-shares` and `priority`, on a cluster that runs as daemons."""

from __future__ import annotations

import json

from tests.polling import eventually

MANIFEST = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  user: {user}
  tasks:
  - replicas: 1
    name: a
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: c
          command: [sleep, "1000"]
          resources: {{requests: {{cpu: 1}}}}
"""


def test_whose_turn_it_is_and_why(machine, tmp_path):
    machine.start_head("--num-cpus", "1")
    assert "No user has used anything yet" in machine.done("shares")
    assert machine.done("priority") == "No job waits.\n"

    def submit(name, user):
        file = tmp_path / f"{name}.yaml"
        file.write_text(MANIFEST.format(name=name, user=user))
        machine.done("submit", str(file))

    submit("first", "alice")
    eventually(lambda: machine.jobs()["first"]["state"] == "Running")
    for name, user in (("a", "alice"), ("b", "bob"), ("c", "carol")):
        submit(name, user)

    def order(*words):
        found = json.loads(machine.done("priority", "--json", *words))
        return [(one["podgroup"].partition("/")[2], one["position"]) for one in found]

    assert order() == [("b", 1), ("c", 2), ("a", 3)]
    assert "bob" in machine.done("set-shares", "default", "bob=0", "alice=2.5")
    assert order() == [("c", 1), ("a", 2), ("b", 3)]
    assert order("--user", "alice") == [("a", 2)]
    assert order("--queue", "no-such") == []
    shown = machine.done("priority")
    assert shown.split()[:5] == ["QUEUE", "NEXT", "JOB", "USER", "PRIORITY"]
    listed = {row["user"]: row for row in json.loads(machine.done("shares", "--json"))}
    assert (listed["alice"]["shares"], listed["alice"]["rate"]) == (2.5, 1.0)
    assert listed["bob"]["level_fairshare"] == 0.0
    assert listed["alice"]["use"] > 0.0
    for wrong in ("bob", "=3", "bob=many", "bob=nan"):
        refused = machine.phalanx("set-shares", "default", wrong)
        assert (refused.returncode, "shares are USER=N" in refused.stderr) == (2, True)
    refused = machine.phalanx("set-shares", "nope", "bob=1")
    assert (refused.returncode, "there is no queue 'nope'" in refused.stderr) == (1, True)
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(machine.done("snapshot"))
    assert order("--snapshot", str(snapshot)) == order()
