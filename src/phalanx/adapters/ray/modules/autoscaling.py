"""`ray.autoscaler.sdk`: nodes may be asked for, and nothing here adds any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def request_resources(
    num_cpus: int | None = None,
    bundles: Sequence[Mapping[str, float]] | None = None,
    bundle_label_selectors: Sequence[Mapping[str, str]] | None = None,
) -> None:
    """Look at what is asked for, and leave it there: as on a cluster of Ray's without an
    autoscaler. Raises TypeError and ValueError for what Ray refuses."""
    if num_cpus is not None and not isinstance(num_cpus, int):
        raise TypeError(f"num_cpus is a whole number of CPUs, or None: {num_cpus!r}")
    if bundles is not None:
        if not isinstance(bundles, list):
            raise TypeError(f"bundles is a list of dicts such as {{'CPU': 1}}: {bundles!r}")
        for bundle in bundles:
            _check(bundle)
    if bundle_label_selectors is not None:
        given = 0 if bundles is None else len(bundles)
        if bundles is None or len(bundle_label_selectors) != given:
            raise ValueError(
                f"bundle_label_selectors has one dict for each of the {given} bundles: "
                f"{len(bundle_label_selectors)} were given"
            )


def _check(bundle: object) -> None:
    if not isinstance(bundle, dict):
        raise TypeError(f"a bundle is a dict such as {{'CPU': 1}}: {bundle!r}")
    for name, amount in bundle.items():
        if not isinstance(name, str):
            raise TypeError(f"a bundle's resources have names that are text: {name!r}")
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise TypeError(f"a bundle's amount of {name} is a number: {amount!r}")
