"""The site of `make docs` in a real browser, opened as files: every page is accessible."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from axe_playwright_python.sync_playwright import Axe

ROOT = Path(__file__).parents[2]
MOST_BYTES = 300_000
"""The most bytes that a browser may load for a page, with everything that the page loads."""
MOST_BYTES_TO_SEARCH = 400_000
"""The same limit for the search page, which loads the index of all words."""
WITHOUT_A_TITLE = {"genindex.html", "search.html"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "--quiet", "--fail-on-warning", "-b", "html", "docs", str(target)]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
    return target


@pytest.fixture(scope="module")
def pages(site):
    found = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    assert len(found) > 90
    return found


class Reader:
    """A tab. It collects what its pages load, and errors of scripts."""

    def __init__(self, chromium, **options):
        self._context = chromium.new_context(**options)
        self.page = self._context.new_page()
        self.loaded: set[str] = set()
        self.wrong: list[str] = []
        self.page.on("request", lambda request: self.loaded.add(request.url))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))

    def open(self, path, query=""):
        self.loaded.clear()
        self.page.goto(path.as_uri() + query, wait_until="load")

    def bytes_loaded(self):
        return sum(Path(unquote(urlparse(url).path)).stat().st_size for url in self.loaded)

    def close(self):
        self._context.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("width", [390, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_readable_by_everybody(chromium, site, pages, scheme, width):
    reader = Reader(chromium, color_scheme=scheme, viewport={"width": width, "height": 900})
    found = []
    for path in pages:
        reader.open(path)
        name = str(path.relative_to(site))
        for one in Axe().run(reader.page).response["violations"]:
            found.append((name, one["id"], [part["html"][:120] for part in one["nodes"]]))
        wide = reader.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            found.append((name, "wider than the window", wide))
        if strange := [url for url in reader.loaded if not url.startswith(site.as_uri())]:
            found.append((name, "loads from elsewhere", strange))
        limit = MOST_BYTES_TO_SEARCH if name == "search.html" else MOST_BYTES
        if reader.bytes_loaded() > limit:
            found.append((name, "bytes", reader.bytes_loaded()))
    reader.close()
    assert found == []
    assert reader.wrong == []


@pytest.mark.timeout(300)
def test_every_page_is_read_without_scripts(chromium, site, pages):
    options = {"viewport": {"width": 1600, "height": 900}}
    plain = Reader(chromium, java_script_enabled=False, **options)
    usual = Reader(chromium, **options)
    found = []
    for path in pages:
        name = str(path.relative_to(site))
        if name in WITHOUT_A_TITLE:
            continue
        plain.open(path)
        usual.open(path)
        if plain.page.inner_text("article") != usual.page.inner_text("article"):
            found.append((name, "other text"))
        if not plain.page.is_visible(".sidebar-tree a"):
            found.append((name, "no way to other pages"))
    plain.close()
    usual.close()
    assert found == []


def test_links_and_the_search_work_on_files(chromium, site):
    reader = Reader(chromium)
    reader.open(site / "index.html")
    reader.page.click("article a:has-text('The first hour')")
    assert reader.page.inner_text("h1").startswith("The first hour")
    reader.open(site / "search.html", "?q=gang")
    reader.page.wait_for_selector("#search-results h2:has-text('Search Results')")
    assert reader.page.locator("#search-results li a").count() > 10
    reader.close()
    assert reader.wrong == []
