"""The report page: one file without references to others, which shows every run."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from phalanx.dashboard.scales import (
    Scale,
    bounds,
    decade_ticks,
    round_ticks,
    seconds,
    span,
    time_decades,
    time_ticks,
)
from phalanx_research.report.heat import heat_map
from phalanx_research.report.page import report_page
from phalanx_research.report.run import Curve, HeatNode, ReportRun

VOID = {"meta", "line", "path", "br"}


class Balanced(HTMLParser):
    """Checks that every element is closed in the right place, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def a_run(name: str, best: float) -> ReportRun:
    return ReportRun(
        name=name,
        figures={"alloc_pct_at_arrived_100": best, "failed_pods": 3, "resource": "GPU"},
        curves={
            "allocation": Curve(x=[0, 50, 100], y=[0, 50, best]),
            "fragmentation": Curve(x=[0, 100], y=[10, 5]),
            "waiting": Curve(x=[0, 3600], y=[0, 9]),
            "over_time": Curve(x=[0, 3600], y=[0, 80]),
            "fragmented": Curve(x=[0, 3600], y=[0, 5]),
        },
        queues=[{"name": "prod<1>", "jobs": 2, "jct_mean_s": 7200.0}],
        jct_s=[5.0, 50.0, 500.0],
        heat=[HeatNode(name="n1", model="T4", used_pct=[100, 0, 40])],
    )


def page(*runs: ReportRun) -> str:
    return report_page(runs, title="Runs <of> one day", subtitle="a & b")


def test_the_page_is_whole_by_itself() -> None:
    html = page(a_run("fgd", 95.2), a_run("first<fit", 94.4))
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    for text in (
        "Runs <of> one day",
        "a & b",
        "first<fit",
        "Waiting over time",
        "Every GPU",
        "prod<1>",
        "2 h",
    ):
        assert text in parser.text
    assert not re.search(r"https?://|<script|@import|url\(", html)


def test_each_run_has_its_line_in_each_plot() -> None:
    html = page(a_run("one", 90), a_run("two", 95))
    for colour in (0, 1):
        assert html.count(f'class="line c{colour}"') == 7
    assert html.count("<figure") == 2


def test_a_plot_without_data_is_left_out() -> None:
    html = page(ReportRun(name="empty", figures={"failed_pods": 1}))
    assert "<polyline" not in html
    assert "Every GPU" not in html


def test_the_best_figure_is_marked_where_figures_differ() -> None:
    html = page(a_run("one", 90.0), a_run("two", 95.0))
    assert re.findall(r"<td class=best>([^<]*)</td>", html) == ["95.00"]


@pytest.mark.parametrize("names", [[], ["same", "same"]])
def test_runs_need_names_of_their_own(names: list[str]) -> None:
    with pytest.raises(ValueError, match="different names"):
        page(*(a_run(name, 1.0) for name in names))


def test_heat_map_shades() -> None:
    html = heat_map([HeatNode(name="n", model="T4", used_pct=[0, 0, 1, 99.9, 100])])
    assert re.findall(r'<path class="h(\d)"', html) == ["0", "1", "4", "5"]
    assert "M0 0h5v10h-5z" in html  # two idle devices are one rectangle
    assert "1 nodes, 5 GPUs" in html


def test_scales_and_ticks() -> None:
    assert round_ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert round_ticks(84.2, 95.4) == [86, 88, 90, 92, 94]
    assert decade_ticks(1, 5000) == [1, 10, 100, 1000]
    assert time_ticks(0, 7200 * 3) == [0, 3600, 7200, 10800, 14400, 18000, 21600]
    assert time_ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert time_decades(5, 4000) == [10, 60, 600, 3600]
    assert bounds([3.0, 3.0]) == (3.0, 4.0)
    assert bounds([]) == (0.0, 1.0)
    assert Scale(low=1, high=100, start=0, end=10, log=True).place(10) == pytest.approx(5)
    assert Scale(low=0, high=10, start=100, end=0).place(99) == 0
    assert [span(v) for v in (0, 0.25, 59.5, 5400, 1_000_000, 100 * 86_400)] == [
        "0 s", "0.25 s", "59.5 s", "1.5 h", "11.6 d", "100 d",
    ]  # fmt: skip
    assert [seconds(v) for v in (0.5, 90, 7200, 172_800)] == ["0.5 s", "90 s", "2 h", "2 d"]
