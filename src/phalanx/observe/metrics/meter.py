"""A meter, which counts metrics by their label values in limited memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from phalanx.observe.metrics.catalogue import CATALOGUE
from phalanx.observe.metrics.definitions import (
    COUNTER,
    HISTOGRAM,
    OTHER,
    Definition,
    Numbers,
    Sample,
    fits,
)


class Family:
    """The numbers of one metric, one Sample for each set of label values."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.samples: dict[tuple[str, ...], Sample] = {}

    def sample(self, labels: tuple[str, ...]) -> Sample:
        """Return the sample with these label values.

        Once the metric has its largest number of samples, a new sample gets OTHER as its last
        value. Once the metric has twice that number, a new sample gets OTHER for all values.
        """
        found = self.samples.get(labels)
        if found is not None:
            return found
        definition = self.definition
        assert len(labels) == len(definition.labels), (labels, definition)
        if labels and len(self.samples) >= definition.most:
            is_flooded = len(self.samples) >= 2 * definition.most
            folded = (OTHER,) * len(labels) if is_flooded else (*labels[:-1], OTHER)
            if folded != labels:
                return self.sample(folded)
        counts = [0.0] * (len(definition.bounds) + 1) if definition.kind == HISTOGRAM else None
        made = self.samples[labels] = Sample(labels, 0.0, counts)
        return made


class Meter:
    """Counts the metrics of one process, or of several processes whose numbers are added up."""

    def __init__(self, catalogue: Mapping[str, Definition] = CATALOGUE) -> None:
        self._catalogue = catalogue
        self.families: dict[str, Family] = {}
        """The metrics that have numbers, by name."""

    def _family(self, name: str) -> Family:
        family = self.families.get(name)
        if family is None:
            family = self.families[name] = Family(self._catalogue[name])
        return family

    def add(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Add to a counter."""
        self._family(name).sample(labels).value += by

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge, or set a counter whose value is counted elsewhere."""
        self._family(name).sample(labels).value = value

    def observe(self, name: str, value: float, *labels: str, times: float = 1) -> None:
        """Add a value to a histogram, `times` times."""
        family = self._family(name)
        sample = family.sample(labels)
        assert sample.counts is not None, name
        sample.counts[bisect_left(family.definition.bounds, value)] += times
        sample.value += value * times

    def take_in(self, numbers: Numbers) -> None:
        """Add the numbers that another process counted since its last report. Metrics that are not
        in the catalogue, and samples that do not fit their metric, are ignored.
        """
        if numbers.name in self._catalogue:
            family = self._family(numbers.name)
            for one in numbers.samples:
                merge(family, one)

    def clear(self, name: str) -> None:
        """Remove all values of a gauge. Values that are set later stay."""
        self.families.pop(name, None)

    def numbers(self) -> list[Numbers]:
        """Return all numbers. They are no copies: they change when the meter counts more."""
        return [Numbers(name, list(one.samples.values())) for name, one in self.families.items()]

    def drain(self) -> list[Numbers]:
        """Return the counts since the last call and the gauges that were set since, and remove
        them.
        """
        found = self.numbers()
        self.families.clear()
        return found


def merge(family: Family, more: Sample, *, adds_gauges: bool = False) -> None:
    """Add another process's sample to a counter or histogram, or replace a gauge's value by the
    sample's value.

    With `adds_gauges`, gauges are added up, too. A sample that does not fit the metric is ignored.
    """
    if not fits(family.definition, more):
        return
    sample = family.sample(more.labels)
    if adds_gauges or family.definition.kind in (COUNTER, HISTOGRAM):
        sample.value += more.value
    else:
        sample.value = more.value
    if sample.counts is not None and more.counts is not None:
        sample.counts = [a + b for a, b in zip(sample.counts, more.counts, strict=True)]
