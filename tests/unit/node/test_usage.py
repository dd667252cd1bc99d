"""The usage of a member, computed from samples that the tests contain."""

from __future__ import annotations

import pytest

from phalanx.node.usage import MemberUsage, UsageSample


def test_cpu_and_memory_of_a_member():
    """The member uses two CPUs for ten seconds and is then idle for ten. One of its children begins
    and ends between two samples.
    """
    usage = MemberUsage(2.0, (), 100.0)
    usage.began(b"p", 7)
    usage.sample(110.0, UsageSample({7: (20.0, 300)}, {}))
    usage.sample(120.0, UsageSample({7: (20.1, 500)}, {}))
    usage.exited(b"p", 30.0, 800)
    used = usage.total(120.5)
    assert (used.ran_s, used.cpu_s, used.samples) == (20.5, 30.0, 2)
    assert used.cpu_max == pytest.approx(2.0), "a short end says nothing about CPUs"
    assert used.cpu_idle_s == pytest.approx(10.0)
    assert (used.memory_mean, used.memory_max) == (400.0, 800.0)
    assert used.gpus == 0


def test_a_run_too_short_for_a_sample_has_its_cpu_time():
    usage = MemberUsage(1.0, (), 0.0)
    usage.began(b"p", 7)
    usage.exited(b"p", 0.4, 0)
    used = usage.total(0.5)
    assert (used.cpu_s, used.samples, used.memory_max) == (0.4, 0, 0.0)
    assert used.cpu_max == pytest.approx(0.8)


def test_processes_side_by_side_add_up():
    usage = MemberUsage(2.0, (), 0.0)
    usage.began(b"p", 7)
    usage.began(b"q", 8)
    usage.sample(10.0, UsageSample({7: (5.0, 10), 8: (5.0, 20), 9: (99.0, 99)}, {}))
    usage.exited(b"p", 5.0, 0)
    usage.sample(20.0, UsageSample({8: (15.0, 20)}, {}))
    used = usage.total(20.0)
    assert (used.cpu_s, used.cpu_max, used.memory_max) == (20.0, 1.0, 30.0)


def test_devices():
    """One of the two devices is idle for a while."""
    usage = MemberUsage(1.0, (0, 3), 0.0)
    usage.began(b"p", 7)
    seen = {7: (1.0, 1)}
    usage.sample(10.0, UsageSample(seen, {0: (1.0, 5.0, 80.0), 3: (0.0, 5.0, 80.0)}))
    usage.sample(30.0, UsageSample(seen, {0: (0.5, 20.0, 80.0), 3: (0.1, 5.0, 80.0)}))
    used = usage.total(30.0)
    assert used.gpus == 2
    assert used.gpu_mean == pytest.approx((0.5 * 10 + 0.3 * 20) / 30)
    assert (used.gpu_max, used.gpu_idle_s) == (0.5, 10.0)
    assert (used.gpu_memory_max, used.gpu_memory_total) == (25.0, 160.0)


def test_a_device_that_says_nothing_makes_all_unknown():
    usage = MemberUsage(1.0, (0, 3), 0.0)
    usage.began(b"p", 7)
    usage.sample(10.0, UsageSample({7: (1.0, 1)}, {0: (1.0, 5.0, 80.0)}))
    assert usage.total(10.0).gpus == 0


def test_a_clock_that_stands_makes_no_negative_times():
    usage = MemberUsage(1.0, (), 10.0)
    usage.began(b"p", 7)
    usage.sample(9.0, UsageSample({7: (1.0, 1)}, {}))
    used = usage.total(8.0)
    assert (used.ran_s, used.cpu_idle_s) == (0.0, 0.0)
