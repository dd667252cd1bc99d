"""Pages about cycles of the scheduler."""

from __future__ import annotations

from phalanx.dashboard.pages import decisions
from phalanx.model.rows.cycles import RefusedInfo

from .test_app import run, served
from .world import CYCLES, EVIL, Head, cycle, node, placed_info, snapshot


def test_actions_stand_in_their_order_though_a_cycle_lacks_some():
    short = cycle(3, actions={"allocate": 0.1})
    page = decisions.decisions([*CYCLES, short])
    assert page.actions == ["allocate", "reclaim"]
    assert [one.number for one in page.cycles] == [3, 2, 1]
    assert decisions.decisions([]).cycles == []


def test_the_page_has_the_newest_cycles_and_says_how_many_there_are():
    page = decisions.decisions([cycle(number) for number in range(decisions.SHOWN + 7)])
    assert [one.number for one in page.cycles] == list(range(decisions.SHOWN + 6, 6, -1))
    assert page.in_all == decisions.SHOWN + 7


def test_a_cycle_tells_each_verdict_and_what_is_another_than_before():
    page = decisions.cycle_page(snapshot(), CYCLES)
    said = [(line.verdict.gang, line.verdict.verdict, line.reason) for line in page.lines]
    assert said == [
        ("default/runs", "placed", ""), (EVIL, "evicted", ""), ("default/next", "promised", ""),
        (f"default/{EVIL}", "left", EVIL), ("default/gone", "left", ""),
    ]  # fmt: skip
    assert page.lines[-1].job == "", "it is not known any more"
    assert page.news is not None
    assert page.news.came == sorted([f"default/{EVIL}", "default/gone", "default/runs"])
    assert (page.news.served, page.news.gone) == (["default/next"], ["default/old"])
    assert decisions.cycle_page(snapshot(), CYCLES[:1]).news is None


def test_a_verdict_says_which_node_won_with_which_score_or_which_plugin_refused():
    scores = {"binpack": 42.25, "network-topology-aware": 0.0}
    placed = placed_info(first=node(1).node_id, among=3, scores=scores)
    no = RefusedInfo(gang="default/gone", plugin=EVIL, code="license", sentence="it is taken")
    page = decisions.cycle_page(snapshot(), [cycle(3, placed=[placed], refused=[no])])
    assert page.lines[0].won == (
        f"{node(1).hostname} of 3 that would take it, score 42.25: "
        "binpack 42.25, network-topology-aware 0"
    )
    assert page.lines[-1].verdict.refused == no
    alone = decisions.cycle_page(snapshot(), [cycle(3, placed=[placed_info(first="n", among=1)])])
    assert alone.lines[0].won == "only n would take it"
    chosen = placed_info(first="n", among=2, chooser="selector")
    assert (
        "selector chose n of 2"
        in decisions.cycle_page(snapshot(), [cycle(3, placed=[chosen])]).lines[0].won
    )


def test_the_pages_say_the_commands_and_what_is_not_there():
    async def look():
        async with served(Head()) as (client, _):
            listed = (await client.get("/decisions")).text
            assert "4.00 ms" in listed and "×4" in listed
            assert "phalanx scheduler cycles" in listed
            one = (await client.get("/decisions/2")).text
            assert "phalanx replay" in one and "by reclaim" in one and "for next" in one
            for path in ("/decisions/99", "/decisions/x", "/decisions/-1"):
                assert (await client.get(path)).status_code == 404

    run(look())
