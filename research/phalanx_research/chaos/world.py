"""Runs one simulated cluster from one seed: faults, then repair, then a check of progress."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial

from phalanx.head.head import Head
from phalanx.model.lifecycle import DEAD
from phalanx_research.chaos import settled
from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.cluster import Cluster
from phalanx_research.chaos.faults import Faults
from phalanx_research.chaos.history import History
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.network import Network
from phalanx_research.chaos.options import Options, draw
from phalanx_research.chaos.promises import Promises
from phalanx_research.chaos.workload import Program

PROGRESS_S = 240.0
"""Seconds after the last fault within which all submitted work must have ended, apart from arrays
that still begin tasks.
"""
NEXT_TASK_S = 30.0
"""Seconds within which an array that needs longer than PROGRESS_S must begin a task that has not
run yet. The tasks of some arrays run one after another, and a slow network makes each of them slow.
"""
SETTLE_S = 90.0
"""Seconds after the drivers' end within which everything that they held must be released."""
_BACK_S = 5.0
"""Seconds within which all nodes connect to a restarted head."""
_STEP_S = 0.5


class World:
    """A simulated cluster with its programs and checks."""

    def __init__(self, seed: int, options: Options | None = None) -> None:
        self.kernel = kernel = Kernel(str(seed))
        self._options = options = options or draw(kernel)
        network = Network(kernel, options.network)
        self.history = History()
        self.promises = Promises(kernel, network, self.history)
        self._rng = kernel.rng("world")
        self.cluster = Cluster(kernel, network, options, self.promises, self.history, self._rng)
        self._programs: list[Program] = []
        for number in range(options.drivers):
            kernel.at(self._rng.uniform(0.0, 2.0), partial(self._start_driver, number))
        self.faults = Faults(kernel, network, options, self.history, self.cluster)

    def _start_driver(self, number: int) -> None:
        nodes = self.cluster.living_nodes()
        if not nodes:
            return
        node = self._rng.choice(nodes)
        driver = self.cluster.start_driver(node, f"d{number + 1}")
        rng = self.kernel.rng(f"program {number}")
        self._programs.append(Program(self._options, self.history, self.cluster, node, driver, rng))

    def run(self) -> None:
        """Run the seed. Raises Broken if an invariant is broken. The garbage collector is off
        during the run, because it would drop references at times that depend on earlier work of
        this process.
        """
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            self._run()
        finally:
            if was_enabled:
                gc.enable()

    def _run(self) -> None:
        options, kernel, cluster = self._options, self.kernel, self.cluster
        kernel.run(options.chaos_s)
        self.faults.heal()
        self._run_until(self._is_all_ended, PROGRESS_S)
        begun = 0
        while not self._is_all_ended() and self.promises.jobs.members_begun > begun:
            begun = self.promises.jobs.members_begun
            self._run_until(self._is_all_ended, NEXT_TASK_S)
        self.promises.check_all_kept(kernel.now - options.chaos_s, self._control)
        self.promises.jobs.check_ends(self._control)
        for driver in cluster.drivers:
            if driver.is_alive and driver.process_id:
                self.promises.check_journal(driver)
        if options.quiet_s:
            self._restart_head_after_quiet(options.quiet_s)
        for program in self._programs:
            program.end()
        self._run_until(lambda: not settled.actors_left(cluster), SETTLE_S)
        self._run_until(lambda: not settled.references_left(cluster), SETTLE_S)
        settled.check_references(cluster)
        for driver in cluster.drivers:
            if driver.is_alive:
                driver.host.guard(driver.leave)
        self._run_until(lambda: not settled.leftovers(cluster), SETTLE_S)
        settled.check(cluster)

    def _restart_head_after_quiet(self, seconds: float) -> None:
        """Inject no fault for this many seconds. Then end the head, and start the next head a
        second later. Raises Broken if a node ends because of this.
        """
        kernel, cluster = self.kernel, self.cluster
        kernel.log("all", f"nothing happens for {seconds:g} s")
        kernel.run(kernel.now + seconds)
        there = cluster.living_nodes()  # not earlier: a slow network may have cost a node by then
        cluster.head_down()
        kernel.after(1.0, cluster.head_up)
        kernel.run(kernel.now + _BACK_S)
        ended = [node.name for node in there if not node.host.is_up]
        if ended:
            raise Broken(
                f"{', '.join(ended)} ended as the head was away for a second, after {seconds:g} s "
                "in which nothing had happened",
                [*ended, "head"],
            )

    @property
    def _control(self) -> Head | None:
        head = self.cluster.head
        return None if head is None else head.control

    def _end_detached(self) -> None:
        """End detached actors that outlive their drivers. News of such an actor may reach the head
        only after its driver has ended.
        """
        control = self._control
        if control is None:
            return
        at_work = [p.driver for p in self._programs if p.driver.is_alive and not p.is_over]
        working = {driver.process_id for driver in at_work}
        for record in control.actor_table.all():
            if record.detached and record.owner not in working and record.state != DEAD:
                control.actor_table.kill(record.actor, no_restart=True)

    def _is_all_ended(self) -> bool:
        promises = self.promises
        if promises.open() or promises.jobs.open(self._control) or promises.reads.are_open:
            return False
        return all(program.is_idle for program in self._programs)

    def _run_until(self, is_met: Callable[[], bool], limit_s: float) -> None:
        until = self.kernel.now + limit_s
        while self.kernel.now < until and not is_met():
            self.cluster.head_host.guard(self._end_detached)
            self.kernel.run(self.kernel.now + _STEP_S)
