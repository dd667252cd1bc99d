"""Carries out a plan of `phalanx up`: one thread for each machine of a stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os.path import basename
from typing import Any, TypeVar

from phalanx.cli.rollout.cluster_file import Cluster
from phalanx.cli.rollout.connection import Connection, MachineError
from phalanx.cli.rollout.plan import (
    HEAD,
    NODE,
    STANDBY,
    Do,
    Found,
    Plan,
    Running,
    Step,
    head_to_ask,
    options_mark,
)
from phalanx.cli.rollout.words import stage_words
from phalanx.model.lifecycle import ALIVE

T = TypeVar("T")

_LOOK_S = 90.0
_STEP_S = 300.0
_INSTALL_S = 3600.0
_JOIN_S = 60.0
_LOOK_EVERY_S = 1.0


class Rollout:
    """The machines of a cluster, with the steps that were taken and the failures on each."""

    def __init__(self, cluster: Cluster, wanted: str, report: Callable[[str], None]) -> None:
        """`wanted`: the mark of the software that the file names. `report` prints the step that
        begins.
        """
        self._cluster = cluster
        self._wanted = wanted
        self._report = report
        self._reach = {
            name: Connection(machine, cluster) for name, machine in cluster.machines.items()
        }
        self.done: dict[str, list[Do]] = {}
        self.failures: dict[str, str] = {}

    def look(self, names: Iterable[str]) -> dict[str, Found]:
        """Return the state of these machines. A machine that cannot be reached counts as failed."""
        wanted = [name for name in names if name not in self.failures]
        return self._on_each(wanted, self._look_at)

    def carry_out(self, plan: Plan, stops: bool) -> bool:
        """Take the steps of a plan. A machine that failed is left out of the later stages.

        `stops`: whether any failure ends the plan. A failed start of a head always ends the plan.
        Returns whether all stages were carried out.
        """
        for stage in plan.stages:
            steps = [step for step in stage if step.machine not in self.failures]
            if not steps:
                continue
            self._report(stage_words(steps, self._cluster))
            ended = self._on_each(steps, self._take, lambda step: step.machine)
            for step in ended:
                self.done.setdefault(step.machine, []).append(step.do)
            is_needed = stops or any(step.do is Do.START_HEAD for step in steps)
            if is_needed and len(ended) < len(steps):
                return False
        return True

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return the nodes that the head does not report as alive even after a while. The wait is
        needed because a restarted head hears from its nodes later. Raises MachineError.
        """
        asked = head_to_ask(self._cluster, self.look(self._cluster.heads))
        address = self._cluster.head_address(asked)
        deadline = time.monotonic() + _JOIN_S
        while True:
            rows = self._reach[asked].ask("nodes", _LOOK_S, address=address)["nodes"]
            alive = {name for name, state in rows if state == ALIVE}
            missing = [name for name in names if name not in alive]
            if not missing or time.monotonic() > deadline:
                return missing
            time.sleep(_LOOK_EVERY_S)

    def _on_each(
        self,
        items: Sequence[Any],
        work: Callable[[Any], T],
        machine_of: Callable[[Any], str] = str,
    ) -> dict[Any, T]:
        """Do some work for each item, several at a time. Returns the results of the items whose
        work did not fail.
        """
        if not items:
            return {}
        results = {}
        with ThreadPoolExecutor(min(self._cluster.parallel, len(items))) as threads:
            waiting = [(item, threads.submit(work, item)) for item in items]
            for item, one in waiting:
                try:
                    results[item] = one.result()
                except MachineError as error:
                    self.failures[machine_of(item)] = str(error)
        return results

    def _look_at(self, name: str) -> Found:
        package = self._cluster.install.package
        answer = self._reach[name].ask("look", _LOOK_S, package=package)
        return Found(
            package=answer["package"],
            installed=frozenset(answer["installed"]),
            protocols=answer["installed"],
            token=answer["token"],
            own_token=answer["own_token"],
            running=tuple(
                Running(
                    kind=one["kind"],
                    name=one["name"],
                    addresses=frozenset(one["addresses"]),
                    package=one.get("package", ""),
                    options=one.get("options", ""),
                )
                for one in answer["daemons"]
            ),
        )

    def _take(self, step: Step) -> None:
        reach = self._reach[step.machine]
        match step.do:
            case Do.INSTALL:
                self._install(reach)
            case Do.SEND_TOKEN:
                reach.ask("write_token", _STEP_S, token=self._token(step.machine))
            case Do.START_NODE:
                reach.ask("start", _STEP_S, **self._start(step.machine, is_head=False))
            case Do.START_HEAD | Do.START_STANDBY:
                reach.ask("start", _STEP_S, **self._start(step.machine, is_head=True))
            case Do.RESTART_HEAD:
                reach.ask("restart_head", _STEP_S, **self._start(step.machine, is_head=True))
            case Do.RESTART_NODE:
                reach.ask("restart_node", _STEP_S, mark=self._wanted)
            case Do.STOP:
                reach.ask("stop", _STEP_S)

    def _install(self, reach: Connection) -> None:
        install, mark = self._cluster.install, self._wanted
        if install.wheel:
            reach.ask("prepare", _STEP_S, mark=mark)
            target = f".phalanx/up/{mark}/{basename(install.wheel)}"
            reach.copy(install.wheel, target, _INSTALL_S)
        reach.ask(
            "install",
            _INSTALL_S,
            mark=mark,
            package=install.package,
            wheel=basename(install.wheel),
            extras=install.extras,
            python=install.python,
            pip=install.pip,
        )

    def _token(self, receiver: str) -> str:
        """Return the cluster's token. It is read from one of the machines with a head, other than
        `receiver`. A head makes the token at its first start.
        """
        troubles = []
        for name in self._cluster.heads:
            if name == receiver or name in self.failures:
                continue
            try:
                return str(self._reach[name].ask("read_token", _STEP_S)["token"])
            except MachineError as error:
                troubles.append(f"{name}: {error}")
        raise MachineError("; ".join(troubles) or "no machine with the token can be reached")

    def _start(self, name: str, is_head: bool) -> dict[str, Any]:
        """Return the request that starts a head or a node."""
        cluster, machine = self._cluster, self._cluster.machines[name]
        words = ["--host", machine.address]
        if is_head:
            words += [
                "--head",
                "--no-node",
                "--port",
                cluster.head_address(name).rpartition(":")[2],
            ]
            for other in cluster.heads:
                if other != name:
                    words += ["--standby", cluster.head_address(other)]
        else:
            words += ["--address", ",".join(cluster.addresses), "--node-name", name]
        return {
            "mark": self._wanted,
            "words": words,
            "options": cluster.options(name),
            "options_mark": options_mark(cluster, name, HEAD if is_head else NODE),
            "kinds": [HEAD, STANDBY] if is_head else [NODE],
        }
