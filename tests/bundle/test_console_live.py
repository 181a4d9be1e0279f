"""The console in a real Chromium: a dead stream, wrong addresses, sorting, updates, the slider, copied commands."""

from collections.abc import Iterator
from datetime import timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from tests.kits import browser_kit
from tests.kits.browser_kit import Browser
from tests.kits.console_kit import NOW, demo_tables, serving, wait_for
from tests.unit.jobs.table_rows import NOON, append, metrics

pytestmark = browser_kit.NEEDS_CHROMIUM

LATER = NOW + timedelta(minutes=36)
NONE, MINUS = "\u2013", "\u2212"
ENTER, RIGHT, LEFT, CONTROL = "\ue007", "\ue014", "\ue012", "\ue009"


@pytest.fixture
def page(browser: Browser, tables: str) -> Iterator[Browser]:
    """The overview on a wide, light screen, freshly loaded; answers are not kept."""
    with serving(tables, fresh_s=0) as address:
        browser.fresh(f"{address}/#/")
        yield browser


def principals(page: Browser) -> list[str]:
    return page.words("main tbody td:first-child")


class TestStale:
    @pytest.mark.parametrize(
        "fragment", ["#/", "#/throttled", "#/headroom", "#/decisions", "#/principal?name=User:alice"]
    )
    def test_each_page_says_since_when_nothing_is_known(self, browser: Browser, tables: str, fragment: str) -> None:
        with serving(tables, now=LATER) as address:
            browser.fresh(f"{address}/{fragment}")
            (banner,) = browser.words("#stale")
            assert banner.startswith("No rows since 12:00, 36 min: is the stream running?")
            assert "pid-quota doctor" in banner
            assert browser.words("#stale:not([hidden])")
            assert browser.faults() == []

    def test_nothing_known_is_not_shown_as_nothing(self, browser: Browser, tables: str, pictures: Path) -> None:
        with serving(tables, now=LATER) as address:
            browser.open(f"{address}/#/")
            wait_for(lambda: browser.words(".chart canvas"), "the chart")
            browser.picture(pictures / "console-stale-light.png")
            assert set(browser.words(".figures dd")) == {f"{NONE}not known"}
            assert "Nobody is throttled" not in browser.text()
            assert "Unknown: no rows since 12:00, 36 min." in browser.words(".empty")

    def test_no_row_at_all_is_not_calm_either(self, browser: Browser, tmp_path: Path) -> None:
        with serving(str(tmp_path)) as address:
            browser.open(f"{address}/#/throttled")
            assert browser.words("#stale")[0].startswith("No rows yet")
            assert "Unknown: no rows yet." in browser.words(".empty")

    def test_a_live_stream_has_no_banner(self, page: Browser) -> None:
        assert page.words("#stale:not([hidden])") == []


class TestHints:
    def test_a_mistyped_principal_is_pointed_to_the_right_one(self, page: Browser) -> None:
        page.go("#/principal?name=User:malory")
        assert "Did you mean User:mallory?" in page.words("main p")
        page.go("#/principal?name=mallory")
        page.click("main p a", "User:mallory")
        page.arrived("User:mallory throttled")

    def test_a_mistyped_page_is_not_the_overview(self, page: Browser) -> None:
        page.go("#/headrom")
        assert page.words("h1") == ["There is no page “headrom”"]
        page.go("#/__proto__")
        assert page.words("main p") == ["Start at the Overview."]
        assert page.complaints() == []


class TestSorting:
    def test_keys_sort_and_screen_readers_are_told(self, page: Browser) -> None:
        page.go("#/headroom")
        page.driver.execute_script("document.querySelector('th .sort').focus()")
        page.press(ENTER)
        assert principals(page)[:2] == ["unknown", "User:<script>alert(1)</script>"]
        assert page.words("th[aria-sort=ascending]") == ["Principal"]
        assert page.focused() == "Principal"
        page.press(ENTER)
        assert page.words("th[aria-sort=descending]") == ["Principal"]
        page.click("th .sort", "New in window")
        assert page.words("th[aria-sort=descending]") == ["New in window"]
        assert principals(page)[:2] == ["User:mallory", "User:checkout"]

    def test_a_refresh_keeps_order_and_focus(self, page: Browser) -> None:
        page.go("#/headroom")
        page.driver.execute_script("document.querySelectorAll('th .sort')[4].focus()")
        page.press(ENTER)
        before, focused = principals(page), page.focused()
        page.refresh()
        assert (principals(page), page.focused()) == (before, focused)


class TestLive:
    def test_new_rows_come_without_a_reload_but_not_behind_other_tabs(self, browser: Browser, tmp_path: Path) -> None:
        with serving(demo_tables(tmp_path), fresh_s=0) as address:
            browser.fresh(f"{address}/#/headroom")
            asked = "return performance.getEntriesByType('resource').length"
            browser.hide(True)
            before = browser.driver.execute_script(asked)
            append(tmp_path, "producer_id_metrics", metrics("User:newcomer", NOON, new_pids_window=9))
            assert "User:newcomer" not in principals(browser)
            assert browser.driver.execute_script(asked) == before
            browser.hide(False)
            wait_for(lambda: "User:newcomer" in principals(browser), "the new row")

    def test_updates_can_be_paused(self, page: Browser) -> None:
        page.click("#pause")
        assert page.words("#pause") == ["Resume updates"]
        page.driver.execute_script("document.querySelector('h1').dataset.old = '1'")
        page.hide(False)
        assert page.words("[data-old]")
        page.click("#pause")
        wait_for(lambda: not page.words("[data-old]"), "the refresh")

    def test_open_details_and_marked_text_stay(self, page: Browser) -> None:
        page.go("#/principal?name=User%3Amallory&hours=6")
        page.click("summary")
        wait_for(lambda: page.words("details[open]"), "the details")
        page.refresh()
        assert page.words("details[open] dt") == ["Java", "Python", "librdkafka"]


def test_the_slider_tells_what_another_expiration_would_free(page: Browser) -> None:
    page.go("#/occupancy")
    page.driver.execute_script("document.querySelector('#expiration').focus()")
    before = page.words("#expiration ~ output")
    page.press(LEFT)
    assert (before, page.words("#expiration ~ output")) == (["24 h"], ["18 h"])
    assert MINUS in "".join(page.words(".slider + div tbody td:last-child"))
    page.refresh()
    assert page.words("#expiration ~ output") == ["18 h"]
    page.press(RIGHT, RIGHT)
    assert "+" in "".join(page.words(".slider + div tbody td:last-child"))


def pasted(page: Browser) -> str:
    """Return what a reader would paste now."""
    page.driver.execute_script("document.querySelector('#search input').focus()")
    page.press(CONTROL + "v")
    return str(page.driver.execute_script("return document.querySelector('#search input').value"))


class TestCommands:
    @pytest.fixture(params=["clipboard", "no clipboard", "no way to copy"])
    def quotas(self, request: pytest.FixtureRequest, browser: Browser, tables: str) -> Iterator[tuple[Browser, str]]:
        """The page of quotas, in a browser that lets pages use the clipboard or does not."""
        with serving(tables, fresh_s=0) as address:
            way = str(request.param)
            # Browsers trust 127.0.0.1 like HTTPS, and 0.0.0.0 not.
            host = address if way == "clipboard" else address.replace("127.0.0.1", str(IPv4Address(0)))
            browser.fresh(f"{host}/#/quotas")
            assert browser.driver.execute_script("return navigator.clipboard !== undefined") == (way == "clipboard")
            if way == "no way to copy":
                browser.driver.execute_script("document.execCommand = () => false")
            browser.driver.execute_script("document.querySelector('#search input').value = ''")
            yield browser, way

    def test_a_key_copies_the_command_of_a_row(self, quotas: tuple[Browser, str], tables: str) -> None:
        page, way = quotas
        page.driver.execute_script("document.querySelector('[aria-label$=\"sets the quota of mallory\"]').focus()")
        page.press(ENTER)
        command = page.driver.execute_script("return document.activeElement.title")
        assert command.startswith(f"pid-quota quotas --tables {Path(tables).absolute()} --alter --entity-type users ")
        assert "--entity-name mallory --add-config producer_ids_rate=" in command
        if way == "no way to copy":
            wait_for(lambda: page.words("#command") == [f"Press Ctrl+C to copy: {command}"], "what to do")
            page.press(CONTROL + "c")
        else:
            wait_for(lambda: page.words("#command") == [f"Copied: {command}"], "what was copied")
            assert page.focused() == "Set"
        page.refresh()
        assert command in page.words("#command")[0]
        assert pasted(page) == command
        assert page.complaints() == []

    def test_each_page_offers_what_changes_what_it_shows(self, page: Browser) -> None:
        page.go("#/quotas")
        assert page.words("main input, main form") == []
        assert len(page.words("[aria-label$='deletes the quota of mallory']")) == 1
        assert page.words("[aria-label$='deletes the quota of alice']") == []
        assert "--entity-default" in page.driver.execute_script(
            "return document.querySelector('[aria-label$=\"deletes the default quota\"]').title"
        )
        release = "pid-quota release --bootstrap-server kafka-1.example.com:9092,kafka-2.example.com:9092"
        page.go("#/principal?name=User:mallory")
        assert f"{release} User:mallory" in page.words("main code")
        page.go("#/principal?name=User:alice")
        assert not any("release" in each for each in page.words("main code"))
        page.go("#/holds")
        assert page.words("main code") == [f"{release} --all"]
        page.driver.execute_script("document.querySelector('[aria-label$=\"releases User:mallory\"]').focus()")
        page.press(ENTER)
        wait_for(lambda: page.words("#command") == [f"Copied: {release} User:mallory"], "what was copied")
        page.go("#/")
        assert page.words("#command") == [""]
