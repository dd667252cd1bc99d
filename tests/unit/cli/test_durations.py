"""Lengths of time and amounts of memory, in the notations that people write and that commands
print.
"""

from __future__ import annotations

import pytest

from phalanx.api.job import Job
from phalanx.cli.amounts import memory_bytes
from phalanx.cli.durations import read_seconds, seconds_at_least
from phalanx.cli.times import clock, moment
from phalanx.manifests.quantities import quantity
from phalanx.manifests.sizes import read_amount, read_size
from phalanx.model.readable import ranges, size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("1e2", 100),
        ("0", 0),
        ("0s", 0),
        ("90s", 90),
        ("1.5m", 90),
        ("15m", 900),
        ("2h30m", 9_000),
        ("1:30", 90),
        ("1:30:00", 5_400),
        ("1-12:00", 129_600),
        (" 2h ", 7_200),
        (30.0, 30),
    ],
)
def test_a_number_alone_counts_seconds_and_all_other_forms_name_their_unit(written, seconds):
    assert read_seconds(written) == seconds


@pytest.mark.parametrize("written", ["", "abc", "nan", "inf", "1e999", "-1h", "5x", "h", "1::2"])
def test_other_texts_are_refused_with_the_forms(written):
    with pytest.raises(ValueError, match="a duration is like 90s, 15m"):
        read_seconds(written)


@pytest.mark.parametrize("written", ["-1", "0", "0.4", "1e12"])
def test_an_option_refuses_what_is_out_of_its_range(written):
    with pytest.raises(ValueError, match=r"at least 0\.5 s"):
        seconds_at_least(0.5)(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("100MiB", 100 * 2**20),
        ("100.0 MiB", 100 * 2**20),
        ("100Mi", 100 * 2**20),
        ("1.5GiB", 1.5 * 2**30),
        ("4Gi", 4 * 2**30),
        ("100M", 1e8),
        ("100 MB", 1e8),
        ("10k", 1e4),
        ("10K", 1e4),
        ("10kB", 1e4),
        ("10KiB", 10_240),
        ("1e9", 1e9),
        ("512 B", 512),
        ("512", 512),
        (512, 512),
        (2.5e9, 2.5e9),
    ],
)
def test_memory_is_read_in_the_forms_in_which_it_is_shown(written, expected):
    assert read_size(written) == expected
    assert memory_bytes(written) == int(expected)
    assert Job("true", memory=written, memory_limit=written).memory == expected


@pytest.mark.parametrize("amount", [0, 1, 1023, 1024, 1536, 3 * 2**20, 2**30, 5 * 2**40])
def test_a_shown_size_is_read_back(amount):
    assert read_size(size(amount)) == amount


@pytest.mark.parametrize("written", ["", "MiB", "5X", "5 5", "1e3Mi", "nan", True, None])
def test_other_amounts_of_memory_are_refused_with_the_forms(written):
    with pytest.raises(ValueError, match="an amount of memory is like 4Gi, 512MiB"):
        read_size(written)
    with pytest.raises(ValueError, match="an amount of memory is like"):
        memory_bytes(written)


def test_a_job_names_its_field():
    with pytest.raises(ValueError, match="memory='5X': an amount of memory is like"):
        Job("true", memory="5X")


def test_manifests_and_other_resources_keep_to_kubernetes_forms():
    assert read_amount("memory", "1.0 KiB") == 1024
    assert read_amount("CPU", "500m") == 0.5
    for refused in ("100MiB", "1.5 GiB"):
        with pytest.raises(ValueError):
            quantity(refused)
        with pytest.raises(ValueError):
            read_amount("CPU", refused)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([4], "4"), ([0, 1, 2, 3], "0-3"), ([6, 0, 1, 3], "0-1,3,6"), ([2, 3], "2-3")],
)
def test_numbers_of_devices_are_ranges(numbers, text):
    assert ranges(numbers) == text


def test_a_duration_that_is_too_long_is_not_called_malformed() -> None:
    with pytest.raises(
        ValueError, match=r"must be more than 0 and at most 1e\+09 s: 99999999999999d"
    ):
        read_seconds("99999999999999d")


@pytest.mark.parametrize("at", [1e300, -1e300, float("inf"), float("nan")])
def test_a_number_that_is_no_time_is_shown_as_unknown(at: float) -> None:
    assert moment(at, "-") == clock(at, "-") == "-"
