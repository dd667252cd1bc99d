"""The cost of many people for the head: decisions about rights, and submissions of 20 people.

`run(clock)` measures this in CPU time, which other work on the machine affects less than elapsed
time. For the submissions, a real head runs, and its only node is taken, so that the jobs wait. Each
of 20 people has a token, and each submission comes over a connection of its own, as from
`phalanx run` on another machine. `a core` is the fraction of a core that the head's process needs
for 50 submissions a second. The gateway, which checks the tokens, is a process of its own.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phalanx.head.rights.authorize import (
    CLUSTER,
    QUEUE,
    WORK,
    Asking,
    Object,
    authorize,
)
from phalanx.model.principals import UNIX, Principal, Role
from phalanx.model.rights import Verb

Clock = Callable[[], float]
Row = dict[str, Any]

DECISIONS = 500_000
PEOPLE = 20
SUBMISSIONS = 1_000
A_SECOND = 50
_ANSWER_S = 120.0


def run(clock: Clock, decisions: int = DECISIONS, submissions: int = SUBMISSIONS) -> list[Row]:
    """Return a row about decisions, and one about submissions."""
    return [_decisions(decisions), _submissions(clock, submissions)]


def _decisions(count: int) -> Row:
    asked = list(_questions())
    questions = itertools.islice(itertools.cycle(asked), count)
    used = time.process_time()
    for asking, verb, thing in questions:
        authorize(asking, verb, thing)
    took_s = time.process_time() - used
    return {"what": f"decisions about {len(asked)} kinds of requests", "per cpu s": count / took_s}


def _questions() -> Iterator[tuple[Asking, Verb, Object]]:
    lists = frozenset({"ana", "@ml"}), frozenset({"bo"})
    for role, verb, kind in itertools.product(Role, Verb, (CLUSTER, QUEUE, WORK)):
        for owner, submit in itertools.product(("ana", "bo"), lists):
            yield (
                Asking(Principal(UNIX, "ana", "ana"), role),
                verb,
                Object(
                    kind=kind,
                    name="lab",
                    owner=owner,
                    path=("root", "lab"),
                    submit=(submit,),
                    admin=frozenset({"carol"}),
                ),
            )


def _submissions(clock: Clock, count: int) -> Row:
    import psutil

    from phalanx import Job
    from phalanx.api.new_manifests import job_manifest, new_request
    from phalanx.cluster_utils import Cluster
    from phalanx.protocol.requests.tokens import CreateToken
    from phalanx.runtime.daemons.finding import ask_cluster
    from phalanx.runtime.daemons.personal_token import new_token
    from phalanx.runtime.daemons.remote import ask_remote

    cluster = Cluster(store="memory")
    try:
        cluster.start_head()
        cluster.add_node(num_cpus=1)
        tokens = [new_token() for _ in range(PEOPLE)]
        for number, token in enumerate(tokens):
            made = CreateToken(f"person-{number}", token.id, token.secret_hash)
            ask_cluster(cluster.address, made, _ANSWER_S)
        assert cluster.head_pid is not None
        head = psutil.Process(cluster.head_pid)
        gateways = head.children()
        holding = Job("sleep 1000", name="holding", grace_s=1).spec()
        ask_cluster(cluster.address, new_request([job_manifest(holding)]), _ANSWER_S)
        used = _cpu_s([head]), _cpu_s(gateways)

        def submit(number: int) -> None:
            request = new_request([job_manifest(Job(["true"], name=f"job-{number}").spec())])
            ask_remote(cluster.address, tokens[number % PEOPLE], request, _ANSWER_S)

        begun = clock()
        with ThreadPoolExecutor(PEOPLE) as people:
            list(people.map(submit, range(count)))
        took_s = clock() - begun
        of_head, of_gateway = _cpu_s([head]) - used[0], _cpu_s(gateways) - used[1]
    finally:
        cluster.shutdown()
    return {
        "what": f"{count:,} submissions of {PEOPLE} people at once",
        "per s": count / took_s,
        "head ms": 1000 * of_head / count,
        "a core": A_SECOND * of_head / count,
        "gateway ms": 1000 * of_gateway / count,
    }


def _cpu_s(processes: list[Any]) -> float:
    times = [one.cpu_times() for one in processes]
    return float(sum(one.user + one.system for one in times))
