"""The console in a real Chromium: a dead stream, wrong addresses, sorting, live updates, the slider, and editing."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from jobs.web.editors import Editors, editor_line
from tests.kits import browser_kit
from tests.kits.browser_kit import PHONE, Browser
from tests.kits.console_kit import NOW, demo_tables, serving, wait_for
from tests.unit.jobs.table_rows import NOON, append, metrics

pytestmark = browser_kit.NEEDS_CHROMIUM

SECRET = "-".join(["correct", "horse", "battery"])
LATER = NOW + timedelta(minutes=36)
NONE, MINUS = "\u2013", "\u2212"
ENTER, RIGHT, LEFT = "\ue007", "\ue014", "\ue012"


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
        assert page.words("main p") == ["Did you mean Headroom?"]
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


def test_bars_tell_what_was_refused_and_over_what_time(page: Browser) -> None:
    assert "per 5 min" in page.words(".quiet")
    assert page.words("[aria-current=true]") == ["6 h"]
    label = page.driver.execute_script("return document.querySelector('.chart').getAttribute('aria-label')")
    assert label == "New producer ids per 5 min. Newest: refused 13, admitted 9"


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


class TestEditing:
    @pytest.fixture
    def editing(self, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
        monkeypatch.chdir(tmp_path)
        file = tmp_path / "editors"
        file.write_text(f"{editor_line('ada', SECRET)}\n{editor_line('bob', SECRET)}\n", encoding="utf-8")
        file.chmod(0o600)
        with serving(demo_tables("./tables"), fresh_s=0, editors=Editors.load(file)) as address:
            browser.fresh(f"{address}/#/quotas")
            yield browser

    def sign_in(self, page: Browser, password: str = SECRET, name: str = "ada") -> None:
        page.type_into("#editor", name)
        page.driver.execute_script("document.querySelector('#password').focus()")
        page.press(password, ENTER)

    def draft(self, page: Browser, quota: str) -> None:
        """Draft a quota of mallory, without refreshes that show what others do."""
        wait_for(lambda: page.words("input.rate"), "the text boxes")
        page.click("#pause")
        page.type_into("input[aria-label='New quota of mallory']", quota)
        wait_for(lambda: any("instead of" in words for words in page.words("td")), "what it would refuse")

    def test_without_editors_the_page_only_reads(self, page: Browser) -> None:
        page.go("#/quotas")
        assert page.words("main input, main form") == []
        assert "This console only reads." in page.text()

    def test_a_draft_is_judged_and_applied_in_the_editors_name(self, editing: Browser, pictures: Path) -> None:
        assert editing.words("input.rate") == []
        self.sign_in(editing, "wrong, and long enough")
        wait_for(lambda: "name or password is wrong" in editing.text(), "the refusal")
        self.sign_in(editing)
        wait_for(lambda: editing.words("input.rate"), "the text boxes")
        assert editing.faults() == []

        editing.type_into("input[aria-label='New quota of mallory']", "5")
        wait_for(lambda: any("instead of" in words for words in editing.words("td")), "what it would refuse")
        editing.refresh()
        editing.picture(pictures / "console-editing-light.png")
        assert [words for words in editing.words("main h2") if words == "Draft"]
        editing.click("button", "Apply 1 change")
        wait_for(lambda: "1 change applied by ada." in editing.text(), "the change")
        (row,) = [words for words in editing.words("main tbody tr") if words.startswith("mallory")]
        assert row.startswith("mallory5")
        assert "by ada" in row

        editing.click("button", "Sign out")
        wait_for(lambda: editing.words("#password") == [""], "the way in")
        assert [line for line in editing.complaints() if "403" not in line] == []

    def test_of_two_editors_at_once_the_second_is_told_and_goes_on_from_the_new_quota(
        self, editing: Browser, tmp_path: Path
    ) -> None:
        self.sign_in(editing)
        with browser_kit.chromium(tmp_path / "profile") as other:
            other.fresh(editing.driver.current_url)
            self.sign_in(other, name="bob")
            self.draft(editing, "5")
            self.draft(other, "7")
            editing.click("button", "Apply 1 change")
            wait_for(lambda: "1 change applied by ada." in editing.text(), "the first change")

            other.click("button", "Apply 1 change")
            wait_for(lambda: "was set to 5" in other.text(), "the refusal")
            assert "by ada meanwhile. Nothing was changed" in other.text()
            wait_for(lambda: "changed meanwhile" in other.text(), "the draft from the new quota")
            other.click("button", "Apply 1 change")
            wait_for(lambda: "1 change applied by bob." in other.text(), "the second change")
            assert [line for line in other.complaints() if "409" not in line] == []

    def test_an_invalid_quota_is_reported_and_not_drafted(self, editing: Browser) -> None:
        self.sign_in(editing)
        wait_for(lambda: editing.words("input.rate"), "the text boxes")
        editing.type_into("input[aria-label='New quota of mallory']", "many")
        wait_for(lambda: "“many” is no quota" in editing.text(), "the complaint")
        assert "Draft" not in editing.words("h2")

    def test_it_fits_a_phone(self, editing: Browser) -> None:
        self.sign_in(editing)
        wait_for(lambda: editing.words("input.rate"), "the text boxes")
        editing.look(PHONE)
        editing.click("[aria-label='Delete the quota of mallory']")
        wait_for(lambda: "Draft" in editing.words("h2"), "the draft")
        assert editing.width_of_content() <= PHONE[0]
        assert editing.faults() == []
