"""All hooks: each hook's signature, its switch, and how the plugins' answers combine.

`HOOKS` is the table of all hooks. `HookRegistry` collects the functions that the plugins of a
session register, and combines their answers by the hook's rule. The rules follow Volcano's
session_plugins.go. Order functions return sort keys. For a class of equal tasks, filters return a
mask over all nodes, and scorers a vector over all nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from operator import itemgetter
from typing import Any

from phalanx.scheduler.cycle.config import Configuration

PERMIT, ABSTAIN, REJECT = 1, 0, -1
"""The votes that a plugin can give."""


class Rule(Enum):
    """How the answers of several plugins are combined into one answer."""

    KEY = "keys are compared plugin by plugin, the smaller first"
    COMPARE = "the first answer other than 0 decides"
    FIRST_NO = "the first refusal decides"
    ALL = "all must agree"
    ANY = "one that says yes is enough"
    VOTE = "a reject decides; else a permit within a tier does; without votes it is permitted"
    FIRST_TIER_ALL = "all plugins of the first tier that has any must say yes; none means no"
    SMALLEST = "the smallest number"
    LARGEST = "the largest number"
    INTERSECT = "victims that all plugins of a tier name; the first tier with some decides"
    UNION = "all victims of a tier together; the first tier with some decides"
    SUM = "scores add up"
    FIRST = "the first plugin that answers"
    EACH = "every plugin is called"
    COLLECT = "the session keeps them all"


@dataclass(frozen=True, kw_only=True)
class Hook:
    """A hook. `signature` is for display. `switch`: the name that turns the hook off in a
    configuration; None if it cannot be turned off.
    """

    signature: str
    switch: str | None
    rule: Rule


HOOKS: dict[str, Hook] = {
    name: Hook(signature=signature, switch=switch, rule=rule)
    for name, signature, switch, rule in (
        ("job_valid", "(Job) -> Rejection | None", None, Rule.FIRST_NO),
        ("held_back", "(Job) -> Rejection | None", None, Rule.FIRST_NO),
        ("job_order", "(Job) -> key", "jobOrder", Rule.KEY),
        ("factors", "(Job) -> numbers by name", None, Rule.COLLECT),
        ("queue_order", "(queue, queue) -> int", "queueOrder", Rule.COMPARE),
        ("victim_queue_order", "(queue, queue, for_queue) -> int", None, Rule.COMPARE),
        ("victim_order", "(Job) -> key", None, Rule.KEY),
        ("task_order", "(task) -> key", "taskOrder", Rule.KEY),
        ("subjob_order", "(SubJob) -> key", "subJobOrder", Rule.KEY),
        ("job_ready", "(Job) -> bool", "jobReady", Rule.ALL),
        ("job_shortfall", "(Job) -> int", "jobReady", Rule.LARGEST),
        ("subjob_ready", "(SubJob) -> bool", "subJobReady", Rule.ALL),
        ("job_pipelined", "(Job) -> vote", "jobPipelined", Rule.VOTE),
        ("subjob_pipelined", "(SubJob) -> vote", "subJobPipelined", Rule.VOTE),
        ("job_enqueueable", "(Job) -> vote", "jobEnqueued", Rule.VOTE),
        ("job_enqueued", "(Job) -> None", "jobEnqueued", Rule.EACH),
        ("job_starving", "(Job) -> bool", "jobStarving", Rule.FIRST_TIER_ALL),
        ("overused", "(queue) -> bool", "overused", Rule.ANY),
        ("preemptive", "(queue, request) -> bool", "preemptive", Rule.ALL),
        ("queue_room", "(queue, EquivalenceClass) -> int", "allocatable", Rule.SMALLEST),
        ("room", "(queue, Job, EquivalenceClass) -> int", "allocatable", Rule.SMALLEST),
        (
            "shortage",
            "(queue, Job, EquivalenceClass, count) -> rejections",
            "allocatable",
            Rule.COLLECT,
        ),
        (
            "nothing_taken",
            "(Job, EquivalenceClass, count, resources) -> rejections",
            "reclaimable",
            Rule.COLLECT,
        ),
        ("quotas", "(queue) -> (name, what is left) pairs", "allocatable", Rule.COLLECT),
        ("dry_run", "(queue) -> bool", None, Rule.ALL),
        ("preemptable", "(task, tasks) -> tasks | None", "preemptable", Rule.INTERSECT),
        ("reclaimable", "(task, tasks) -> tasks | None", "reclaimable", Rule.INTERSECT),
        ("evictable", "(Eviction, tasks) -> tasks | None", None, Rule.INTERSECT),
        ("victims", "() -> tasks", "victim", Rule.UNION),
        ("pre_predicate", "(task) -> Rejection | None", "predicate", Rule.FIRST_NO),
        ("entitled", "(Job) -> bool", None, Rule.ANY),
        ("places", "(PlacesAsk) -> Places | None", None, Rule.FIRST),
        ("filter", "Filter", "predicate", Rule.COLLECT),
        ("scorer", "Scorer", "nodeOrder", Rule.COLLECT),
        ("best_node", "(task, nodes, scores) -> node | -1", "bestNode", Rule.FIRST),
        ("hypernode_order", "(SubJob, names) -> scores", "hyperNodeOrder", Rule.SUM),
        ("job_gradient", "(Job, name, purpose) -> levels", "hyperNodeGradient", Rule.FIRST),
        ("subjob_gradient", "(SubJob, name, purpose) -> levels", "hyperNodeGradient", Rule.FIRST),
        ("changed", "(Change) -> None", None, Rule.EACH),
        ("closing", "() -> None", None, Rule.EACH),
    )
}


_tier = itemgetter(0)


class HookRegistry:
    """The functions that the session's plugins registered, tier by tier. The registry combines
    their answers.
    """

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._tier_of = {p.name: i for i, tier in enumerate(config.tiers) for p in tier}
        self._options = {p.name: p for tier in config.tiers for p in tier}
        # Entries are made when a hook is first used, because every cycle makes a registry.
        self._added: dict[str, list[tuple[int, str, Callable[..., Any]]]] = defaultdict(list)
        """The functions of each hook, each with its tier and its plugin."""
        self._flat: dict[str, list[Callable[..., Any]]] = defaultdict(list)
        self._tiers: dict[str, list[list[Callable[..., Any]]]] = {}
        """The functions of each hook, in one list for each tier that has any. They are computed on
        first use.
        """
        self.strict = config.compat == "none"
        """Whether Volcano's quirks are avoided."""

    def is_on(self, plugin: str, switch: str) -> bool:
        option = self._options.get(plugin)
        return option is not None and option.is_on(switch)

    def add(self, hook: str, plugin: str, fn: Callable[..., Any]) -> None:
        """Register `fn`, unless the configuration switches the hook off for the plugin."""
        switch = HOOKS[hook].switch
        if switch is None or self.is_on(plugin, switch):
            added, tier = self._added[hook], self._tier_of[plugin]
            is_last = not added or added[-1][0] <= tier
            added.append((tier, plugin, fn))
            self._flat[hook].append(fn)
            # this is rare, because plugins usually register in the order of their tiers
            if not is_last:
                added.sort(key=_tier)
                self._flat[hook] = [fn for _, _, fn in added]
            if self._tiers:
                self._tiers.pop(hook, None)

    def clear(self) -> None:
        """Drop all registered functions."""
        self._added.clear()
        self._flat.clear()
        self._tiers.clear()

    def all(self, hook: str) -> list[Callable[..., Any]]:
        return self._flat[hook]

    def _by_tier(self, hook: str) -> list[list[Callable[..., Any]]]:
        found = self._tiers.get(hook)
        if found is None:
            tiers = groupby(self._added[hook], key=_tier)
            found = self._tiers[hook] = [[fn for _, _, fn in tier] for _, tier in tiers]
        return found

    def named(self, hook: str) -> Iterator[tuple[str, Any]]:
        """Yield the functions of a hook, each with the name of its plugin."""
        return ((plugin, fn) for _, plugin, fn in self._added[hook])

    def key(self, hook: str, *args: Any) -> tuple[Any, ...]:
        return tuple([fn(*args) for fn in self._flat[hook]])

    def compare(self, hook: str, *args: Any) -> int:
        for fn in self._flat[hook]:
            answer: int = fn(*args)
            if answer:
                return answer
        return 0

    def first(self, hook: str, *args: Any) -> Any:
        """Return the first answer that is not None; None if every answer is None."""
        for fn in self._flat[hook]:
            answer = fn(*args)
            if answer is not None:
                return answer
        return None

    def every(self, hook: str, *args: Any) -> bool:
        for fn in self._flat[hook]:  # noqa: SIM110 -- asked so often that a generator costs time
            if not fn(*args):
                return False
        return True

    def some(self, hook: str, *args: Any) -> bool:
        for fn in self._flat[hook]:  # noqa: SIM110 -- as above
            if fn(*args):
                return True
        return False

    def notify(self, hook: str, *args: Any) -> None:
        for fn in self._flat[hook]:
            fn(*args)

    def vote(self, hook: str, *args: Any) -> bool:
        permitted = False
        for tier in self._by_tier(hook):
            for fn in tier:
                vote = fn(*args)
                if vote < 0:
                    return False
                permitted = permitted or vote > 0
            if permitted:
                return True
        return True

    def first_tier_all(self, hook: str, *args: Any) -> bool:
        tiers = self._by_tier(hook)
        return bool(tiers) and all(fn(*args) for fn in tiers[0])

    def smallest(self, hook: str, *args: Any, limit: int) -> int:
        for fn in self._flat[hook]:
            if limit <= 0:
                return 0
            limit = min(limit, fn(*args))
        return limit

    def largest(self, hook: str, *args: Any) -> int:
        answers = [fn(*args) for fn in self._flat[hook]]
        return max(answers) if answers else 0

    def union(self, hook: str, *args: Any) -> list[int]:
        for tier in self._by_tier(hook):
            found = sorted({t for fn in tier for t in fn(*args)})
            if found:
                return found
        return []

    def intersect(self, hook: str, asker: Any, candidates: Sequence[int]) -> list[int]:
        """Return the victims on which the plugins of the first tier that names victims agree.

        A quirk of Volcano: after an empty intersection, the next plugin of the tier starts a new
        intersection. With compat "none", an empty intersection stays empty.
        """
        for tier in self._by_tier(hook):
            victims: list[int] | None = None
            for fn in tier:
                named: Iterable[int] | None = fn(asker, candidates)
                if named is None:
                    continue
                chosen = list(named)
                if not chosen:
                    victims = None
                    break
                if victims is None:
                    victims = chosen
                else:
                    also = set(chosen)
                    victims = [t for t in victims if t in also]
                    if not victims and not self.strict:
                        victims = None
            if victims is not None and (victims or self.strict):
                return victims
        return []
