"""The way in: which strategy decides for a request, and the short cuts before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from phalanx.policies.affinity import NodeAffinity, WithFallbacks
from phalanx.policies.hybrid import Hybrid
from phalanx.policies.labels import LabelSelector
from phalanx.policies.outcome import Outcome
from phalanx.policies.request_class import ClusterView, Request
from phalanx.policies.spread import RandomAvailable, Spread
from phalanx.policies.strategy import Asking, Strategy, load_strategy, placed
from phalanx.policies.two_pass import TwoPassRandom
from phalanx.resources.ports import RandomSource

BUILT_IN: Mapping[str, Callable[[], Strategy]] = {
    "DEFAULT": Hybrid,
    "SPREAD": Spread,
    "RANDOM": RandomAvailable,
    "TWO_PASS_RANDOM": TwoPassRandom,
}


def strategy(name: str) -> Strategy:
    """A fresh strategy by name: a built-in one, or one's own by its entry point.

    Raises ValueError that lists what there is.
    """
    factory = BUILT_IN.get(name)
    if factory is not None:
        return factory()
    try:
        made: Strategy = load_strategy(name)()
    except ValueError as error:
        raise ValueError(f"{error}; built in: {', '.join(BUILT_IN)}") from None
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
    """The node for one task or for one actor's creation.

    An actor that asks for nothing goes to a random node, as any would do and they would all
    pile up on one; not so where a hard affinity names the node. The local node is taken at once
    where it is preferred and free: only DEFAULT prefers a node.
    """
    is_hard_affinity = isinstance(strategy, NodeAffinity) and not strategy.soft
    if creates_actor and not request.resources and not is_hard_affinity:
        strategy = RandomAvailable()
    elif isinstance(strategy, Hybrid) and not asking.avoid_local:
        local = view.nodes.row_of.get(asking.local or "")
        is_preferred = local is not None and asking.preferred == asking.local
        if local is not None and is_preferred and view.of(request).available[local]:
            return placed(view, local, True)
    if fallbacks:
        strategy = WithFallbacks(fallbacks=tuple(fallbacks), strategy=strategy)
    return strategy.pick(view, request, asking, rng)
