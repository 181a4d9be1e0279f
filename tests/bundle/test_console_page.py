"""The console in a real Chromium: every page in light, dark and on a phone, by keyboard, with hostile names.

`PID_QUOTA_SCREENSHOTS=docs/img` renews the pictures of the docs.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.web.access import TokenAccess
from tests.kits import browser_kit
from tests.kits.browser_kit import PHONE, WIDE, Browser
from tests.kits.console_kit import SCRIPT, serving, wait_for

PAGES = {
    "overview": "#/",
    "throttled": "#/throttled",
    "headroom": "#/headroom",
    "decisions": "#/decisions",
    "holds": "#/holds",
    "quotas": "#/quotas",
    "occupancy": "#/occupancy",
    "principal": "#/principal?name=User%3Amallory&hours=6",
}
LOOKS = {"light": (WIDE, False), "dark": (WIDE, True), "phone": (PHONE, False)}
ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"
LARGEST_PICTURE, TALLEST_PICTURE = 170_000, 1_350

pytestmark = browser_kit.NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def console(tables: str) -> Iterator[str]:
    with serving(tables) as address:
        yield address


@pytest.fixture
def page(browser: Browser, console: str) -> Browser:
    browser.fresh(f"{console}/#/")
    return browser


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_each_page_shows_without_a_complaint_or_a_sideways_scroll(
    browser: Browser, console: str, pictures: Path, name: str, look: str
) -> None:
    size, dark = LOOKS[look]
    browser.look(size, dark)
    browser.open(f"{console}/{PAGES[name]}")

    assert browser.words("main h1")
    assert browser.trouble() == ""
    assert browser.width_of_content() <= size[0]
    if name in ("overview", "principal", "occupancy"):
        wait_for(lambda: browser.words(".chart canvas"), "the chart")
    assert browser.faults() == []
    picture = pictures / f"console-{name}-{look}.png"
    browser.picture(picture, height=TALLEST_PICTURE)
    assert picture.stat().st_size < LARGEST_PICTURE
    assert browser.complaints() == []


class TestContent:
    def test_the_overview_tells_who_is_throttled(self, page: Browser) -> None:
        text = page.text()
        assert "User:mallory" in text
        assert page.words(".figures .alarm dd") == ["1" + "1 held by brokers"]
        assert "Nobody is throttled" not in text

    def test_the_throttled_are_shown_with_the_addresses_that_their_producer_ids_came_from(self, page: Browser) -> None:
        page.go("#/throttled")
        wait_for(lambda: "10.0.0.7 200" in page.text(), "the addresses of mallory's clients")

    def test_a_link_leads_to_a_principal_with_its_charts(self, page: Browser) -> None:
        page.click("main table a")
        page.arrived("User:mallory throttled")
        assert any("Find out why the process ends" in words for words in page.words(".remedy"))
        wait_for(lambda: len(page.words(".chart .uplot")) == 5, "the five charts")
        assert page.words(".chart[aria-label*='quota 20']")
        text = page.text()
        assert "since 11:57:00, 2 of 2 brokers" in text
        assert "3,600 / 3" in text
        assert "Where refused producer ids came from" in text
        assert "10.0.0.8" in text
        assert "restart loop" in text

    def test_holds_tell_who_waits_and_what_happened(self, page: Browser) -> None:
        page.go("#/holds")
        wait_for(lambda: "since 11:57:00, 2 of 2 brokers" in page.text(), "mallory's hold")
        text = page.text()
        assert "pid.quota.never" in text
        assert "left out" in text
        page.go("#/holds?name=User:nobody")
        wait_for(lambda: "Nobody is on hold." in page.text(), "the page of nobody")

    def test_a_name_that_is_markup_is_text_on_every_page(self, page: Browser) -> None:
        for fragment in (*PAGES.values(), f"#/principal?name={SCRIPT}", f"#/headroom?q={SCRIPT}"):
            page.go(fragment)
            assert page.words("main script, main b") == []
        page.go("#/headroom")
        assert SCRIPT in page.text()
        page.click("main a", SCRIPT)
        page.arrived(SCRIPT)
        assert "<b>bold</b>" in page.text()
        assert page.complaints() == []

    def test_without_occupancy_the_page_says_how_to_fill_it(self, browser: Browser, tmp_path: Path) -> None:
        with serving(str(tmp_path)) as address:
            browser.fresh(f"{address}/#/occupancy")
            assert "pid-quota occupancy --bootstrap-server" in browser.text()
            browser.go("#/")
            assert "creates the tables, and so does the stream" in browser.text()

    def test_trouble_is_said_in_words(self, page: Browser) -> None:
        page.go("#/principal?name=a&hours=7")
        assert wait_for(page.trouble, "the trouble").startswith("hours is 7. Choose one of")
        page.go("#/headroom")
        wait_for(lambda: not page.trouble(), "the end of the trouble")


class TestKeyboard:
    def test_the_tab_key_walks_from_the_top_and_the_focus_is_seen(self, page: Browser) -> None:
        page.driver.execute_script("document.activeElement.blur(); window.getSelection().removeAllRanges()")
        page.driver.execute_script("document.querySelector('.skip').focus()")
        order = [page.focused()]
        pages = ["Overview", "Throttled", "Headroom", "Decisions", "Holds", "Quotas", "Occupancy"]
        for _ in range(len(pages) + 2):
            page.press(TAB)
            order.append(page.focused())
        assert order == ["Skip to content", "pid-quota", *pages, "Find a principal"]
        outline = page.driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"

    def test_a_slash_searches_as_one_types_and_enter_opens_the_first(self, page: Browser) -> None:
        page.press("/")
        assert page.focused() == "Find a principal"
        page.press("CHECK")
        wait_for(lambda: page.words("main a") == ["User:checkout"], "the one that was found")
        page.press(ENTER)
        page.arrived("User:checkout")

    def test_escape_leaves_the_search_and_goes_back(self, page: Browser) -> None:
        page.go("#/throttled")
        page.press("/")
        page.press("mal")
        wait_for(lambda: "headroom" in page.driver.current_url, "the search")
        page.press(ESCAPE)
        wait_for(lambda: page.driver.current_url.endswith("#/throttled"), "the page before")
        assert page.focused() != "Find a principal"
        page.press(ESCAPE)
        wait_for(lambda: page.driver.current_url.endswith("#/"), "the overview")

    def test_escape_never_leaves_the_console(self, browser: Browser, console: str) -> None:
        browser.open(f"{console}/#/headroom")
        browser.press(ESCAPE)
        wait_for(lambda: browser.driver.current_url.endswith("#/"), "the overview")
        browser.press(ESCAPE)
        assert browser.driver.current_url.startswith(console)


def test_who_has_the_token_sees_all_and_nobody_else_anything(browser: Browser, tables: str) -> None:
    token = "-".join(["an", "operator", "told", "me"])
    with serving(tables, TokenAccess(token, is_required=True)) as address:
        browser.look()
        browser.driver.get(f"{address}/")
        assert "pid-quota" not in browser.text()
        # What a reader types into the browser's own window comes with each later request.
        browser.driver.get(f"{address.replace('//', f'//anybody:{token}@')}/#/holds")
        browser.arrived("Holds")
        assert browser.words(".uplot") == []
        browser.go("#/")
        wait_for(lambda: browser.words(".chart canvas"), "the chart")
        assert browser.trouble() == ""
        # The page without a token is a 401, which the browser notes; nothing else.
        assert [line for line in browser.complaints() if "401" not in line] == []
