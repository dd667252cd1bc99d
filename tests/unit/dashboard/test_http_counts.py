"""Requests to the page are counted under a small number of names, and timed."""

from __future__ import annotations

import re

from .test_app import run, served
from .world import EVIL, Head


def test_requests_are_counted_by_route_method_and_code_refusals_included():
    async def look():
        async with served(Head()) as (client, _):
            for _ in range(3):
                assert (await client.get("/jobs")).status_code == 200
            await client.get("/jobs/default/no-such")
            await client.get(f"/{EVIL}")
            await client.get("/jobs", headers={"host": "evil.example"})
            await client.request("BREW", "/jobs")
            await client.get("/")
            return (await client.get("/metrics")).text

    text = run(look())
    counts = {
        match[1]: float(match[2])
        for match in re.finditer(r"phalanx_http_requests_total{(.*?)} (.*)", text)
    }
    assert counts == {
        'code="303",method="POST",route="login"': 1,
        'code="200",method="GET",route="jobs"': 3,
        'code="404",method="GET",route="jobs"': 1,
        'code="404",method="GET",route="other"': 1,
        'code="421",method="GET",route="jobs"': 1,
        'code="405",method="other",route="jobs"': 1,
        'code="200",method="GET",route="overview"': 1,
    }
    assert 'phalanx_http_request_seconds_count{route="jobs"} 6.0' in text
