"""The page in a real browser: texts of users are never executed, the page is accessible, and it
updates itself.
"""

from __future__ import annotations

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from tests.unit.dashboard.test_app import PAGES
from tests.unit.dashboard.world import EVIL, NOW, gang, job, node, snapshot, task

from phalanx.model.jobs import states as st

from .conftest import Served, Visitor
from .drawn import DrawnHead

SHOWN = """() => {
  const main = document.querySelector("main");
  return document.querySelector("h1") && main.dataset.live && main.dataset.live !== "wait";
}"""
"""Whether a page shows its data, and no longer waits for answers of the cluster."""
MEETING = """() => [...document.querySelectorAll("svg.curves, .ticks svg")].flatMap((axis) => {
  const texts = [...axis.querySelectorAll("text")]
    .map((one) => [one.textContent, one.getBoundingClientRect()])
    .filter(([, place]) => place.width);
  texts.sort(([, one], [, other]) => one.x - other.x);
  return texts.slice(1)
    .filter(([, place], at) => place.x < texts[at][1].right)
    .map(([text]) => text);
})"""
"""Returns the labels of axes that overlap the label before them."""


@pytest.mark.parametrize("width", [390, 1600, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_readable_by_everybody(chromium, served, scheme, width):
    visitor = Visitor(
        chromium, served, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    page = visitor.page
    found = []
    for path in PAGES:
        page.goto(served.base + path)
        page.wait_for_function(SHOWN)
        for one in Axe().run(page).response["violations"]:
            found.append((path, one["id"], [part["html"][:120] for part in one["nodes"]]))
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            found.append((path, "wider than the window", wide))
        cut = page.evaluate(
            "[...document.querySelectorAll('.scroll')].filter(x => x.scrollWidth > x.clientWidth)"
            ".map(x => x.getAttribute('aria-label'))"
        )
        if cut and width == 390:
            found.append((path, "cut off on a phone", cut))
        if met := page.evaluate(MEETING):
            found.append((path, "texts of an axis that meet", met))
    visitor.close()
    assert found == []
    assert visitor.wrong == []


def test_names_that_mean_harm_are_text(visitor):
    page = visitor.page
    for path in PAGES:
        page.goto(visitor.base + path)
        assert page.locator("img[src=x]").count() == 0
    page.goto(f"{visitor.base}/jobs?q=onerror")
    assert EVIL.replace("\u202e", "") in page.inner_text("tbody").replace("\u202e", "")


def test_a_list_changes_while_it_is_open_and_keeps_what_its_reader_does(visitor, served):
    page = visitor.page
    page.goto(f"{visitor.base}/jobs")
    page.wait_for_selector("#job-default_2f_runs")
    page.fill("input[name=q]", "half a wor")
    page.evaluate("document.getElementById('job-default_2f_next').dataset.kept = 'yes'")
    rows = [one for one in served.head.snapshot.jobs if one.name != "broke"]
    rows[0] = job("runs", st.COMPLETED, finished=NOW)
    served.head.snapshot = snapshot(jobs=[*rows, job("late", st.PENDING, submitted=NOW)])
    page.wait_for_selector("#job-default_2f_late")
    assert page.locator("tbody tr").first.get_attribute("id") == "job-default_2f_late"
    assert page.locator("#job-default_2f_broke").count() == 0
    assert "Completed" in page.inner_text("#job-default_2f_runs")
    assert page.input_value("input[name=q]") == "half a wor"
    assert page.evaluate("document.activeElement.name") == "q"
    assert page.get_attribute("#job-default_2f_next", "data-kept") == "yes", "it did not change"
    page.wait_for_function("() => document.getElementById('pulse').textContent === 'live'")


def test_a_head_that_is_away_is_said_and_forgotten_when_it_is_back(visitor, served):
    page = visitor.page
    page.goto(f"{visitor.base}/queues")
    served.head.error = ConnectionError("nobody answers")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "nobody answers" in page.inner_text("#trouble")
    served.head.error = None
    page.wait_for_selector("#trouble", state="hidden")


def test_the_grid_says_of_each_device_who_holds_it_and_follows(visitor, served):
    page = visitor.page
    page.goto(f"{visitor.base}/nodes")
    page.wait_for_selector("#grid-legend li")
    middle = "const at = phalanx.grid.middleOf('n0001', %d)"
    cell = f"(() => {{ {middle}; return phalanx.grid.cellAt(at.x, at.y); }})()"
    first, second = (page.evaluate(cell % number) for number in (0, 1))
    assert (first["node"], first["device"], first["held"]) == ("n0001", 0, 100)
    assert first["holder"] == ["default/g1", "lab", "default/g1"]
    assert (second["device"], second["held"], second["words"]) == (1, 50, "tasks and actors")
    row = node(1, [0, 0])
    two = [gang(1, [row], [[0]]), gang(2, [row], [[1]])]
    status = msgspec.structs.replace(snapshot().status, nodes=[row, node(2)])
    served.head.snapshot = snapshot(status=status, gangs=two)
    page.wait_for_function(f"() => {cell % 1}.held === 100")
    first, second = (page.evaluate(cell % number) for number in (0, 1))
    assert second["holder"][0] == "default/g2"
    assert first["look"] != second["look"]
    assert "g2, 1 GPU" in page.inner_text("#grid-legend")
    page.hover("#grid", position=page.evaluate("phalanx.grid.middleOf('n0001', 1)"))
    assert "default/g2 of queue lab" in page.inner_text("#grid-note")


def test_the_map_of_devices_says_to_the_keyboard_what_it_says_to_the_pointer(visitor, served):
    page = visitor.page
    of_job = gang(1, [node(1)], [[0]], job="default/runs")
    served.head.snapshot = snapshot(gangs=[of_job])
    page.goto(f"{visitor.base}/nodes")
    page.wait_for_selector("#grid-legend li")
    page.wait_for_function(
        "() => document.getElementById('grid-legend').innerText.includes('runs')"
    )
    page.focus("#grid")
    page.keyboard.press("ArrowRight")
    assert "n0001, device 0: 100 % held by default/runs of queue lab" in page.inner_text(
        "#grid-note"
    )
    page.keyboard.press("ArrowRight")
    assert "n0001, device 1: 50 % held by tasks and actors" in page.inner_text("#grid-note")
    page.keyboard.press("ArrowLeft")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url.endswith("/jobs/default/runs")


@pytest.mark.parametrize("measure", ["queue", "busy", "memory", "heat", "idle"])
def test_the_map_shows_each_measure_with_a_legend(visitor, measure):
    page = visitor.page
    page.goto(f"{visitor.base}/nodes")
    page.wait_for_selector("#grid-legend li")
    before = page.inner_text("#grid-legend")
    page.select_option("#grid-by", measure)
    assert page.inner_text("#grid-legend") not in ("", before)


PRINTED = "() => document.getElementById('log-text').textContent.includes('end')"
"""Whether the output of a member is shown."""


def test_a_node_shows_its_use_over_time_and_its_processes(visitor):
    page = visitor.page
    page.goto(f"{visitor.base}/nodes/{node(1).node_id}")
    charts = page.locator("#use figure").evaluate_all("all => all.map(x => x.innerText)")
    assert len(charts) == 2
    assert "used 2.5" in charts[0] and "allocated 3" in charts[0] and "total 4" in charts[0]
    rows = page.locator("#processes tbody tr").evaluate_all("all => all.map(x => x.innerText)")
    assert len(rows) == 2
    assert "1.5" in rows[0] and "1.0 GiB" in rows[0] and rows[1].startswith("driver")
    page.click("#use >> text=24h")
    page.wait_for_url("**?span=24h")
    assert page.locator("#use a[aria-current]").inner_text() == "24h"


def test_output_is_shown_beside_the_use_as_text_and_searched(visitor):
    page = visitor.page
    page.set_viewport_size({"width": 1600, "height": 900})
    page.goto(f"{visitor.base}/jobs/default/runs")
    page.wait_for_function(PRINTED)
    use, output = page.locator("#use").bounding_box(), page.locator("#log").bounding_box()
    assert output["x"] > use["x"] + use["width"] / 2 and abs(output["y"] - use["y"]) < 5
    page.evaluate("document.getElementById('log-text').textContent = ''")
    page.click("button[data-log]")
    page.wait_for_function(PRINTED)
    assert page.inner_text("#log-text").rstrip() == "red <b>one</b>\n100%\nend"
    page.fill("#log-find", "ONE")
    assert page.inner_text("#log-text") == "red <b>one</b>"


def test_a_command_is_asked_about_and_given(visitor, served):
    page = visitor.page
    page.goto(f"{visitor.base}/jobs/default/runs")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.click("text=Cancel")
    assert served.head.commands == []
    page.once("dialog", lambda dialog: dialog.accept())
    with page.expect_navigation():
        page.click("text=Cancel")
    assert [one.command for one in served.head.commands] == ["cancel"]


def test_the_keyboard_is_enough(visitor):
    page = visitor.page
    page.goto(f"{visitor.base}/jobs")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("next")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.locator("tbody tr").count() == 1
    page.keyboard.press("Tab")
    assert page.inner_text(":focus") == "Skip to the content"


@pytest.fixture
def drawn(chromium):
    served = Served(DrawnHead())
    served.watch._wall = lambda: NOW
    visitor = Visitor(chromium, served)
    yield visitor
    visitor.close()
    served.close()
    assert visitor.wrong == []


@pytest.fixture
def at_work(drawn):
    drawn.page.goto(f"{drawn.base}/work?range=1m")
    return drawn


@pytest.mark.parametrize("width", [390, 1600])
def test_the_names_of_queues_are_not_folded(drawn, width):
    page = drawn.page
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{drawn.base}/")
    lines = page.locator("#card-jobs .compact a[href^='/queues/']").evaluate_all(
        "all => all.map(one => one.getClientRects().length)"
    )
    assert lines == [1, 1, 1, 1]


def test_a_phone_shows_ten_rows_of_a_long_table_and_all_when_asked(drawn):
    page = drawn.page
    page.goto(f"{drawn.base}/objects")
    rows = "all => all.map(one => [...one.rows].filter(row => row.offsetHeight).length)"
    tables = page.locator("table.long tbody")
    assert tables.evaluate_all(rows) == [24, 30]
    assert not page.is_visible("text=Show all rows")
    page.set_viewport_size({"width": 390, "height": 900})
    assert tables.evaluate_all(rows) == [10, 10]
    page.click("text=Show all rows")
    assert tables.evaluate_all(rows) == [24, 30]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_table_of_actors_is_short_on_a_phone_and_needs_no_script(chromium, scheme):
    served = Served(DrawnHead())
    served.watch._wall = lambda: NOW
    visitor = Visitor(chromium, served, color_scheme=scheme, viewport={"width": 390, "height": 900})
    state = visitor.page.context.storage_state()
    context = chromium.new_context(
        storage_state=state, color_scheme=scheme, java_script_enabled=False,
        viewport={"width": 390, "height": 900},
    )  # fmt: skip
    page = context.new_page()
    page.goto(f"{served.base}/work")
    rows = page.locator("#every-actor tbody tr")
    assert (rows.count(), rows.nth(9).is_visible(), rows.nth(10).is_visible()) == (36, True, False)
    page.click("text=Show all rows")
    assert rows.nth(35).is_visible()
    page.fill("#every-actor input[type=search]", "serve.py")
    page.select_option("#every-actor select", "dead")
    page.click("#every-actor button")
    assert page.url.endswith("#every-actor")
    assert [rows.nth(n).locator(".state").inner_text() for n in range(rows.count())] == ["dead"] * 2
    assert "SIGKILL" not in rows.first.inner_text()
    context.close()
    visitor.close()
    served.close()


def test_no_page_of_a_large_cluster_is_long_on_a_phone(chromium):
    served = Served(DrawnHead(1_000))
    served.watch._wall = lambda: NOW
    visitor = Visitor(chromium, served, viewport={"width": 390, "height": 900})
    page = visitor.page
    high = {}
    for path in ("/nodes", "/jobs", "/queues/vision", "/plan", "/objects", "/events"):
        page.goto(served.base + path)
        page.wait_for_function(SHOWN)
        high[path] = page.evaluate("document.documentElement.scrollHeight")
    visitor.close()
    served.close()
    assert {path: px for path, px in high.items() if px > 5_000} == {}
    assert visitor.wrong == []


def test_the_state_of_a_task_is_in_words_that_fit_beside_its_id(chromium):
    head = DrawnHead()
    waits = task(7, state="PENDING_NODE_ASSIGNMENT", start_time_ms=None, end_time_ms=None)
    head.tasks.append(waits)
    served = Served(head)
    visitor = Visitor(chromium, served)
    page = visitor.page
    for width in (390, 1600, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{served.base}/work/{waits['task_id']}")
        page.wait_for_function(SHOWN)
        state = page.locator("#facts .state")
        assert state.inner_text() == "waiting for a node"
        place, cell = state.bounding_box(), page.locator("#facts dd").first.bounding_box()
        assert place["x"] + place["width"] <= cell["x"] + cell["width"]
    visitor.close()
    served.close()
    assert visitor.wrong == []


def test_no_bar_of_the_stream_vanishes_on_a_phone(at_work):
    page = at_work.page
    page.set_viewport_size({"width": 390, "height": 900})
    edges = page.locator("#stream .bar rect:not(.failed, .runs)").evaluate_all(
        "all => [...new Set(all.map(one => getComputedStyle(one).stroke))]"
    )
    assert edges == ["none"], "an edge would cover a bar that is a pixel wide"


def test_the_stream_of_tasks_has_a_lane_for_each_worker_and_tells_of_each_bar(at_work):
    page = at_work.page
    assert page.locator("#stream .track:not(.ticks)").count() == 24
    legend = page.inner_text("#stream .legend-list")
    for function in ("load_shard", "train_step", "augment", "evaluate", "failed", "runs now"):
        assert function in legend
    fills = page.evaluate(
        "[...document.querySelectorAll('#stream .swatch rect')].map(x => getComputedStyle(x).fill)"
    )
    assert len(set(fills)) == len(fills), "no two kinds of bars look alike"
    bar = page.locator("#stream .bar").first
    bar.focus()
    lane = page.locator("#stream .track:not(.ticks) a").first.inner_text()
    assert page.inner_text("#plan-note") == f"{lane}: {bar.get_attribute('aria-label')}"
    failed = page.locator("#stream .bar", has=page.locator("rect.failed")).first
    assert "failed: " in failed.get_attribute("aria-label")
    failed.focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    said = page.inner_text("#attempts")
    assert "failed" in said and "raised an exception" in said
