"""The page's requests take a small part of the head's time, and one slow answer does not stop any
page.
"""

from __future__ import annotations

import pytest

from phalanx.dashboard.pace import MOST_S, REMEMBERED, Pace


@pytest.mark.parametrize(
    ("answers", "pause_s"),
    [
        ([], 0.0),
        ([0.2], 20.0),
        ([0.02, 8.6], 2.0),
        ([8.6, 0.02], 2.0),
        ([0.02] + [0.2] * REMEMBERED, 20.0),
        ([9.0] * REMEMBERED, MOST_S),
    ],
)
def test_the_shortest_of_the_last_answers_is_what_a_question_costs(answers, pause_s):
    pace = Pace()
    for took_s in answers:
        pace.heard(took_s)
    assert pace.pause_s == pytest.approx(pause_s)
