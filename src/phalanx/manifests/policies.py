"""The reading of life-cycle policies, and the rules that several policies must meet together."""

from __future__ import annotations

from phalanx.manifests.fields import Fields
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import Policy
from phalanx.scheduler.cycle.arguments import seconds


def read_policies(at: Fields, key: str = "policies") -> tuple[Policy, ...]:
    """Return all policies of a job or a group. Each policy is checked by itself, and then with the
    others.
    """
    seen: dict[str, Fields] = {}
    codes: set[int] = set()
    policies = []
    for item in at.items(key):
        policy = _read(item)
        item.warn_unknown()
        policies.append(policy)
        for event in policy.events:
            if event in seen:
                reason = f"{event} has two policies; give it one"
                item.error("events" if item.has("events") else "event", "duplicate_event", reason)
            seen[event] = item
        if policy.exit_code is not None:
            if policy.exit_code in codes:
                reason = f"exit code {policy.exit_code} has two policies"
                item.error("exitCode", "duplicate_exit_code", reason)
            codes.add(policy.exit_code)
    if st.ANY_EVENT in seen and len(seen) > 1:
        reason = "'*' means any event: no other event may be given with it"
        at.error(key, "any_event_not_alone", reason)
    return tuple(policies)


def _read(item: Fields) -> Policy:
    events = list(dict.fromkeys(item.texts("events")))
    single = item.text("event")
    if single and single not in events:
        events.append(single)
    code = item.optional_whole("exitCode")
    if events and code is not None:
        reason = "a policy waits for events or for an exit code, not for both"
        item.error("exitCode", "event_and_exit_code", reason)
    if not events and code is None:
        item.error("", "no_event_or_exit_code", "a policy needs an event, events or an exitCode")
    if code == 0:
        item.error("exitCode", "exit_code_zero", "0 is success; a policy is for other exit codes")
    for event in events:
        if event not in st.POLICY_EVENTS:
            reason = f"{event!r} is not one of {', '.join(st.POLICY_EVENTS)}"
            item.error("event" if event == single else "events", "invalid_policy_event", reason)
    action = item.text("action")
    if action not in st.POLICY_ACTIONS:
        reason = f"{action!r} is not one of {', '.join(st.POLICY_ACTIONS)}"
        item.error("action", "invalid_policy_action", reason)
    timeout = _timeout(item)
    if st.POD_PENDING in events and timeout is None:
        reason = "PodPending needs a timeout: every member is pending for a moment"
        item.error("timeout", "pending_without_timeout", reason)
    return Policy(action=action, events=tuple(events), exit_code=code, timeout_s=timeout)


def _timeout(item: Fields) -> float | None:
    written = item.raw("timeout")
    if written is None:
        return None
    timeout = seconds(written)
    if timeout is None:
        reason = f"a timeout must be a length of time like 10m or 1h30m, not {written!r}"
        item.error("timeout", "timeout_invalid", reason)
    return timeout
