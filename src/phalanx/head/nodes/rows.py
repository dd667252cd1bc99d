"""The rows of nodes that other nodes get, and the rows of nodes in listings."""

from __future__ import annotations

from phalanx.head.nodes.record import NodeRecord
from phalanx.model.command_groups import held_text
from phalanx.model.gpu_sharing import plain_amounts
from phalanx.model.holds import CORDON, cordoned_text, holds_text
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import NodeInfo
from phalanx.observe.checks import suspect_checks_text
from phalanx.observe.device_health import BAD, unwell_text
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.report_messages import NodeReport


def view_row(record: NodeRecord, report: NodeReport) -> ViewRow:
    """Return the row of a node with its last report, as other nodes see it."""
    return ViewRow(
        node_id=record.node_id,
        prefix=record.prefix,
        host=record.host,
        port=record.port,
        state=record.state,
        total=record.totals,
        available=report.available,
        labels=record.labels,
        devices=report.devices,
        queue_length=sum(count for _, count in report.queued),
        run_s=report.run_s,
        bandwidth=report.bandwidth,
        ports=record.ports,
        cards=report.cards,
        last_lease=report.last_lease,
    )


def reason_of(record: NodeRecord, report: NodeReport, absence: str) -> str:
    """Return why a node drains, is dead or is not connected now, and which devices are unhealthy.
    Empty for a healthy, connected node that takes work. `absence`: why the node is not connected;
    empty if it is connected.
    """
    parts = (
        record.reason or (f"{absence}; waiting for it to come back" if absence else ""),
        unwell_text(report.unwell),
        suspect_checks_text(report.checks),
        cordoned_text(record.cordoned),
        report.trouble,
    )
    return "; ".join(one for one in parts if one)


def node_info(record: NodeRecord, report: NodeReport, absence: str) -> NodeInfo:
    """Return the row of a node for display. `absence`: why the node is not connected; empty if it
    is connected.
    """
    return NodeInfo(
        node_id=record.node_id,
        state=record.state,
        reason=reason_of(record, report, absence),
        host=record.host,
        port=record.port,
        hostname=record.hostname,
        name=record.name,
        began=record.began,
        ended=record.ended if record.state == DEAD else 0.0,
        total=plain_amounts(record.totals),
        available=plain_amounts(report.available),
        labels=record.labels,
        running=report.running,
        waiting=sum(count for _, count in report.queued),
        devices=report.devices,
        holds=[
            (kind, hold.reason, hold.by, hold.since, hold.deadline)
            for kind, hold in sorted(record.holds.items())
        ],
        unwell=[
            (one.number, one.health.state, one.health.action, one.health.reason)
            for one in report.unwell
        ],
        closed=sorted(
            record.cordoned.keys()
            | {one.number for one in report.unwell if one.health.state == BAD}
        ),
        trouble=report.trouble,
        checks=[(one.name, one.state, one.said) for one in report.checks],
        command_groups=held_text(report.command_groups),
    )


def closed_devices(record: NodeRecord, report: NodeReport) -> list[str]:
    """Return the GPUs of a node that are bad or cordoned, each with the reason as text."""
    found = []
    name = record.hostname or record.node_id[:12]
    health = {one.number: one.health for one in report.unwell}
    bad = {number for number, one in health.items() if one.state == BAD}
    for number in sorted(bad | record.cordoned.keys()):
        reasons = [f"bad: {health[number].reason}"] if number in bad else []
        if number in record.cordoned:
            reasons.append(holds_text({CORDON: record.cordoned[number]}))
        found.append(f"{name}/gpu{number} is {', '.join(reasons)}")
    return found
