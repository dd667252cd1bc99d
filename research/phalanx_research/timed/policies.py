"""Policies by name, as scheduler configurations and rules."""

from __future__ import annotations

from phalanx.scheduler.cycle.config import Configuration, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.placement.fragmentation.catalogue import canonical
from phalanx_research.timed.workload import Rules

CLASSIC = ("fifo", "sjf", "srtf", "srsf", "tiresias")
"""The policies that need no file. Each is the plugin with the policy's name, before the plugin
`gang`.
"""

PUBLISHED_POLICIES = ("srtf", "srsf", "tiresias")
"""The policies for which Muri's authors published figures. Runs that are compared with these
figures use the rules `PUBLISHED`.
"""

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
    """Return the configuration of a classic policy. Jobs start in the policy's order, each on the
    first node by name with room. Jobs that do not fit are skipped. Policies that preempt evict jobs
    that are later in the order. With `anew`, the rules handle preemption instead (`Rules.anew`).
    Raises KeyError for a name that is not in CLASSIC.
    """
    if policy not in CLASSIC:
        raise KeyError(policy)
    evicts = policy in PUBLISHED_POLICIES and not anew
    text = _YAML.format(policy=policy, actions="allocate, preempt" if evicts else "allocate")
    return parse_volcano(text, known_plugins())


def placed(policy: str) -> Configuration:
    """Return the configuration that starts jobs in order of submission and lets a node policy place
    them.

    Jobs that do not fit are skipped. The policy of `phalanx.scheduler.placement.fragmentation`
    picks each job's node. Raises UnknownPolicyError.
    """
    name = canonical(policy)
    text = _YAML.format(policy="fifo", actions="allocate") + _NODE_POLICY.format(policy=name)
    return parse_volcano(text, known_plugins())


PUBLISHED = Rules(period_s=0.0, overhead="event", anew=True)
"""The rules under which Muri's simulator (Zhao et al., SIGCOMM 2022) produced its published
numbers.
"""
