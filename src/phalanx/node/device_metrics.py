"""Metrics of a node's GPUs, from the latest sample of each."""

from __future__ import annotations

from phalanx.node.devices import GPU, DeviceWatch
from phalanx.observe.metrics.meter import Meter
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.quantities import SCALE

_NAMES = (
    ("busy", "phalanx_device_utilization_ratio"),
    ("memory_used", "phalanx_device_memory_used_bytes"),
    ("memory_total", "phalanx_device_memory_bytes"),
    ("temperature_c", "phalanx_device_temperature_celsius"),
    ("power_w", "phalanx_device_power_watts"),
    ("ecc_uncorrected", "phalanx_device_ecc_uncorrected_errors"),
)


class DeviceMetrics:
    """Sets the metrics of GPUs in a meter. Values that a device does not report are left out."""

    def __init__(self, resources: NodeResources, watch: DeviceWatch) -> None:
        self._resources = resources
        self._watch = watch

    def put(self, meter: Meter) -> None:
        """Set the metrics to the latest values."""
        for _, name in _NAMES:
            meter.clear(name)
        for name in ("phalanx_device_allocated_ratio", "phalanx_device_health"):
            meter.clear(name)
        samples = self._watch.samples
        unwell = {one.number: one.health.state for one in self._watch.unwell}
        for number, left in enumerate(self._resources.devices_left().get(GPU, [])):
            sample = samples.get(number)
            labels = (str(number), "" if sample is None else sample.model)
            meter.set("phalanx_device_allocated_ratio", 1 - left / SCALE, *labels)
            meter.set("phalanx_device_health", 1, *labels, unwell.get(number, "ok"))
            for field, name in _NAMES if sample is not None else ():
                value = getattr(sample, field)
                if value is not None:
                    meter.set(name, value, *labels)
