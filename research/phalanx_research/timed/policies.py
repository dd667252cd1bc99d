"""Policies by name, as scheduler configurations and rules."""

from __future__ import annotations

from phalanx.scheduler.cycle.config import Configuration, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.placement.fragmentation.catalogue import canonical
from phalanx_research.timed.workload import Rules

CLASSIC = ("fifo", "sjf", "srtf", "srsf", "tiresias")
"""Policies that need no file; each is the plugin of that name before gang."""

PUBLISHED_POLICIES = ("srtf", "srsf", "tiresias")
"""Those that were published with figures: see PUBLISHED."""

_YAML = """\
actions: "{actions}"
tiers:
- plugins:
  - name: {policy}
  - name: gang
    enablePreemptable: false
- plugins:
  - name: whole-gang
  - name: predicates
"""
_NODE_POLICY = """\
  - name: fragmentation
    arguments:
      fragmentation.policy: {policy}
"""


def classic(policy: str, *, anew: bool = False) -> Configuration:
    """The configuration of a classic policy: jobs in its order, each on the first node by name that
    has room, who does not fit passed over. Policies that preempt evict jobs that come later, or,
    where all is given out `anew`, leave that to the rules.

    Raises KeyError for a name not in CLASSIC.
    """
    if policy not in CLASSIC:
        raise KeyError(policy)
    evicts = policy in PUBLISHED_POLICIES and not anew
    text = _YAML.format(policy=policy, actions="allocate, preempt" if evicts else "allocate")
    return parse_volcano(text, known_plugins())


def placed(policy: str) -> Configuration:
    """The configuration in which jobs start in order of submission, who does not fit passed over,
    each on the node that a policy of `phalanx.scheduler.placement.fragmentation` picks.

    Raises UnknownPolicyError.
    """
    name = canonical(policy)
    text = _YAML.format(policy="fifo", actions="allocate") + _NODE_POLICY.format(policy=name)
    return parse_volcano(text, known_plugins())


PUBLISHED = Rules(period_s=0.0, overhead="event", anew=True)
"""The rules under which Muri's simulator (Zhao et al., SIGCOMM 2022) gave its published numbers."""
