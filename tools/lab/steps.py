"""The steps of the lab, each with its check, and the text of the tutorial between them."""

from __future__ import annotations

from tools.lab.lab import NODES, Lab, check, wait

TASKS = 24
"""The number of tasks in alice's array."""
SSH = """
[ssh]
user = "phalanx"
options = [
    "IdentityFile=key",
    "UserKnownHostsFile=known_hosts",
    "StrictHostKeyChecking=accept-new",
]
"""
CLUSTER = """head = "{head}"
standby = "{standby}"

[install]
package = "{folder}/{wheel}[cluster,redis]"
venv = "/opt/phalanx"
pip = ["--no-index", "--find-links", "/srv/wheels"]
{ssh}
[start]
store = "redis://10.79.0.9:6379/0"
shared = true
num_cpus = 2
object_store_memory = "200MB"
"""
MACHINE = """
[machines.{name}]
host = "{address}"
"""
POOLS = """[pools.cloud]
up = ["/srv/cloud", "up"]
down = ["/srv/cloud", "down"]
resources = { CPU = 4 }
max = 2
idle = "5s"
boot = "5m"
limit = "5m"
"""
CLOUD = """#!/bin/sh
exec ssh -i ~/cloud-key -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR root@admin "$1"
"""


def take_steps(lab: Lab) -> None:
    """Take all steps, one after another."""
    (before,) = (lab.here / "before").glob("*.whl")
    begin(lab, before.name)
    share(lab)
    head = lose_the_head(lab, upgrade(lab))
    grow(lab, head)
    finish(lab, head)


def cluster_file(lab: Lab, folder: str, wheel: str, head: str, standby: str) -> str:
    """Return the text of the cluster file. If the head or the standby has no node, its machine
    comes first.
    """
    heads = [name for name in (head, standby) if name not in NODES]
    text = CLUSTER.format(head=head, standby=standby, folder=folder, wheel=wheel, ssh=SSH)
    for name in (*heads, *NODES):
        text += MACHINE.format(name=name, address=lab.network.address(name))
        text += "node = false\n" if name in heads else ""
    return text


def begin(lab: Lab, wheel: str) -> None:
    page = lab.page
    page.title("A lab: a head, a standby and four nodes")
    page.say(
        "In this tutorial an administrator sets up a cluster on six machines, two people use it, "
        "the software is replaced while they work, the machine of the head is lost for good, and a "
        "machine comes from a cloud when work waits for it. Everything on this page was printed by "
        "`make lab`, which goes through all steps with network namespaces on one machine (root "
        "only) and checks each step."
    )
    page.say(
        "The machines have an account `phalanx`, which runs the cluster, and the accounts `alice` "
        "and `bob`. The account `phalanx` accepts the administrator's key, and owns `/opt`. A "
        "seventh machine runs a Redis server with the store, because a standby must reach the "
        "store without the head's machine."
    )
    page.part("One file for all machines")
    page.say(
        "The administrator describes the cluster in a file, on any machine that reaches all other "
        "machines by ssh:"
    )
    lab.file("lab.toml", cluster_file(lab, "before", wheel, "alpha", "beta"))
    page.say(
        "The lab has no network to the world, so pip takes the packages from a directory, and ssh "
        "takes a key from the current directory. With access to the world, your configuration of "
        'ssh and `package = "phalanx[cluster,redis]==0.2.0"` usually replace both settings. '
        "[A cluster on many machines](../howto/machines.md) has all keys of the file."
    )
    page.part("Set up")
    said = lab.admin("phalanx up lab.toml --dry-run")
    check("Nothing was changed." in said, said)
    said = lab.admin("phalanx up lab.toml")
    check("is as the file says." in said, said)
    check(lab.alive("alpha") == set(NODES), "all four nodes have joined")
    lab.on("alpha", "phalanx", "phalanx nodes")
    page.say("A second `phalanx up` finds nothing to do:")
    said = lab.admin("phalanx up lab.toml")
    check(said.count("nothing to do") == 6, said)


def share(lab: Lab) -> None:
    page = lab.page
    page.part("Two people")
    page.say(
        "With `shared = true` the other accounts of the head's machine may use the cluster, once a "
        "queue lists them ([people](../howto/people.md)):"
    )
    lab.on("alpha", "phalanx", "phalanx queue create lab --submit alice,bob")
    page.say(
        "Alice submits a gang whose two members run until a file exists, and an array of short "
        "tasks. Bob submits a job of his own:"
    )
    gang = "'echo begins; until [ -e /tmp/go ]; do sleep 1; done; echo ends'"
    lab.on(
        "alpha", "alice", f"phalanx run --detach --queue lab --name train --gang 2 -- sh -c {gang}"
    )
    lab.on(
        "alpha",
        "alice",
        "phalanx run --detach --queue lab --name sweep --array 1-"
        f"{TASKS} -- sh -c 'sleep 5; echo done'",
    )
    lab.on("alpha", "bob", f"phalanx run --detach --queue lab --name bobs -- sh -c {gang}")
    wait(lambda: is_running(lab, "alpha", "train", "bobs"), "alice's and bob's jobs start")
    lab.on("alpha", "alice", "phalanx jobs")
    wait(lambda: lab.jobs("alpha")["sweep"]["state"] == "Completed", "the array ends")
    each = f'for one in $(seq 1 {TASKS}); do phalanx logs "sweep[$one]"; done'
    said = lab.on("alpha", "alice", each, shown=False)
    check(said.count("done") == TASKS, said)
    page.say(
        "Alice reads the outputs of the array, for example with `phalanx logs 'sweep[7]'`. The "
        "output of ended jobs stays when a node stops and starts again, until its machine restarts."
    )


def is_running(lab: Lab, host: str, *names: str) -> bool:
    jobs = lab.jobs(host)
    return all(name in jobs and jobs[name]["state"] == "Running" for name in names)


def upgrade(lab: Lab) -> str:
    """Upgrade the cluster to the new wheel, and return the host of the head."""
    page = lab.page
    page.part("Upgrade while they work")
    page.say("The file names the new software, and `--upgrade` replaces the old software:")
    (new,) = (lab.here / "after").glob("*.whl")
    attempts = attempts_of(lab, "alpha")
    lab.file("lab.toml", cluster_file(lab, "after", new.name, "alpha", "beta"), shown=False)
    lab.admin("grep package lab.toml")
    said = lab.admin("phalanx up lab.toml", code=1, shown=False)
    check("`phalanx up --upgrade` replaces it" in said, said)
    said = lab.admin("phalanx up lab.toml --upgrade")
    check("is as the file says." in said, said)
    head = lab.head("alpha", "beta")
    check(is_running(lab, head, "train", "bobs"), "the jobs run on")
    check(attempts_of(lab, head) == attempts, "no member of a running job began again")
    page.say(
        "While the head's process was started again, the standby became the head, so the two "
        f"have changed places: `{head}` serves now. The jobs ran on, and none of their members "
        "was started again:"
    )
    lab.on(head, "alice", "phalanx job train")
    return head


def attempts_of(lab: Lab, host: str) -> dict[str, tuple[int, int]]:
    """Return (restarts, retries) of the jobs `train` and `bobs`, by name."""
    jobs = lab.jobs(host)
    return {name: (jobs[name]["restarts"], jobs[name]["retries"]) for name in ("train", "bobs")}


def lose_the_head(lab: Lab, lost: str) -> str:
    """Cut off the host `lost`, whose head serves, and return the host of the next head."""
    page = lab.page
    page.part("The head is lost for good")
    attempts = attempts_of(lab, lost)
    lab.network.cut_off(lost)
    head = "beta" if lost == "alpha" else "alpha"
    wait(lambda: lab.alive(head) == set(NODES), "the standby takes over")
    page.say(
        f"The power supply of `{lost}` burns. The standby on `{head}` has seen no write to the "
        "store for five seconds, and is the head now. Alice logs in there:"
    )
    lab.on(head, "alice", "phalanx jobs")
    check(is_running(lab, head, "train", "bobs"), "the jobs run on")
    check(attempts_of(lab, head) == attempts, "no member of a running job began again")
    page.say(
        f"The administrator writes a file without `{lost}`. The machine `gamma`, which has a node, "
        "stands by from now on:"
    )
    (new,) = (lab.here / "after").glob("*.whl")
    lab.file("lab.toml", cluster_file(lab, "after", new.name, head, "gamma"), shown=False)
    lab.admin("head -2 lab.toml")
    said = lab.admin("phalanx up lab.toml")
    check("gamma: started the standby" in said, said)
    check(lab.head(head, "gamma") == head, "the head stays the head")
    check(is_running(lab, head, "train", "bobs"), "the jobs run on")
    check(attempts_of(lab, head) == attempts, "no member of a running job began again")
    return head


def grow(lab: Lab, head: str) -> None:
    page = lab.page
    page.part("A machine on demand")
    page.say(
        "A job that needs four CPUs on one machine fits on none of these nodes. Machines that a "
        "cloud starts on demand have four CPUs. The administrator describes these machines in a "
        "separate file, and two programs start and end these machines ([elastic "
        "nodes](../howto/elastic-nodes.md)). In this lab, the program `/srv/cloud` boots a machine "
        "and then runs `phalanx up elastic.toml NAME` as the administrator:"
    )
    (new,) = (lab.here / "after").glob("*.whl")
    text = CLUSTER.format(head=head, standby="gamma", folder="after", wheel=new.name, ssh=SSH)
    for name in (head, "gamma", "cloud-1", "cloud-2"):
        text += MACHINE.format(name=name, address=lab.network.address(name))
        text += "node = false\n" if name == head else ""
        text += "num_cpus = 4\n" if name.startswith("cloud") else ""
    lab.file("elastic.toml", text, shown=False)
    lab.prepare_cloud(head, CLOUD)
    lab.page.file("pools.toml", POOLS)
    lab.put(head, "phalanx", "pools.toml", POOLS)
    lab.on(
        head,
        "phalanx",
        "nohup phalanx provision pools.toml --every 2s > provision.log 2>&1 < /dev/null &",
    )
    lab.on(
        head,
        "bob",
        "sleep 5; phalanx run --detach --queue lab --name wide --cpus 4 -- echo wide",
        shown=False,
    )
    lab.page.command(
        f"bob@{head}", "phalanx run --detach --queue lab --name wide --cpus 4 -- echo wide", ""
    )
    wait(lambda: lab.jobs(head).get("wide", {}).get("state") == "Completed", "the job ends")
    wait(lambda: not lab.is_up("cloud-1"), "the idle machine is ended")
    lab.on(head, "phalanx", "cat provision.log")
    check(lab.alive(head) == set(NODES), "the machine is gone")


def finish(lab: Lab, head: str) -> None:
    page = lab.page
    page.part("Nothing was lost")
    for name in NODES:
        lab.on(name, "phalanx", "touch /tmp/go", shown=False)
    wait(
        lambda: all(lab.jobs(head)[name]["state"] == "Completed" for name in ("train", "bobs")),
        "the jobs end",
    )
    page.say("Each job ends when its file exists, and has printed each of its lines once:")
    lab.on(head, "alice", "phalanx jobs --all")
    said = lab.on(head, "alice", "phalanx logs train")
    check(said.count("begins") == said.count("ends") == 2, said)
    page.say("At the end the administrator ends the cluster. The jobs stay in the store:")
    lab.admin("phalanx down lab.toml")
    page.part("Where to go on")
    page.say(
        "[Shares](../howto/shares.md) of queues and users, "
        "[reservations](../howto/reservations.md), [health](../howto/health.md) of GPUs, "
        "[backups and tokens](../howto/operations.md), "
        "[deaths and survivors](../howto/cluster.md#deaths-and-survivors), and "
        "[jobs that run as their submitters](../howto/people.md#jobs-as-their-submitters)."
    )
