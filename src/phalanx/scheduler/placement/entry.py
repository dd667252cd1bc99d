"""The entry to placement: finds the strategy for a request, and handles the cases that no strategy
decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.affinity import NodeAffinity, WithFallbacks
from phalanx.scheduler.placement.hybrid import Hybrid
from phalanx.scheduler.placement.labels import LabelSelector
from phalanx.scheduler.placement.outcome import Outcome
from phalanx.scheduler.placement.placement_policy import PlacementPolicy
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.selector.strategy import Selector
from phalanx.scheduler.placement.spread import RandomAvailable
from phalanx.scheduler.placement.strategy import Asking, Strategy, load_strategy, placed
from phalanx.scheduler.placement.two_pass import TwoPassRandom
from phalanx.scheduler.placement.waiting_time import LeastWaiting

_MAKERS: Mapping[str, Callable[[PlacementPolicy], Strategy]] = {
    "default": lambda placement: Hybrid(),
    "hybrid": lambda placement: Hybrid(
        spread_threshold=placement.spread_threshold, weighs_local=True
    ),
    "selector": lambda placement: Selector(settings=placement.selector),
    "two-pass-random": lambda placement: TwoPassRandom(),
}


def placement_strategy(placement: PlacementPolicy, waiting: LeastWaiting) -> Strategy:
    """Return the strategy that the cluster's policy gives to work that names no strategy.
    `waiting`: the strategy for the policy `least-waiting`, which uses the nodes' reports. Raises
    ValueError for an unknown policy.
    """
    if placement.policy == "least-waiting":
        return waiting
    maker = _MAKERS.get(placement.policy)
    if maker is not None:
        return maker(placement)
    made: Strategy = load_strategy(placement.policy)()
    return made


def pick_node(
    view: ClusterView,
    request: Request,
    asking: Asking,
    rng: RandomSource,
    *,
    strategy: Strategy,
    fallbacks: Sequence[LabelSelector] = (),
    creates_actor: bool = False,
) -> Outcome:
    """Return the node for one task or for the creation of one actor.

    An actor that requests no resources goes to a random node, because otherwise all such actors
    would pile up on one node. There are two exceptions: a hard affinity names the node, and the
    policy `selector` chooses for such actors, too. If the preferred node is available, DEFAULT
    takes it without comparing it with others, however busy it is. The preferred node is the one
    that holds most bytes of the arguments. If no node holds any, it is the local node; a policy
    that treats the local node like all others then compares the nodes.
    """
    is_hard_affinity = isinstance(strategy, NodeAffinity) and not strategy.soft
    chooses_itself = is_hard_affinity or isinstance(strategy, Selector)
    if creates_actor and not request.resources and not chooses_itself:
        strategy = RandomAvailable()
    elif isinstance(strategy, Hybrid) and not asking.avoid_local:
        row = view.nodes.row_of.get(asking.preferred or "")
        is_local = asking.preferred == asking.local and not strategy.weighs_local
        is_sure = is_local or asking.preferred in asking.held_bytes
        if row is not None and is_sure and view.of(request).available[row]:
            return placed(view, row, True)
    if fallbacks:
        strategy = WithFallbacks(fallbacks=tuple(fallbacks), strategy=strategy)
    return strategy.pick(view, request, asking, rng)
