"""The console's first sight in a real Chromium, its plots, and the cluster's name."""

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs.web.pages import ConsoleData
from tests.kits import browser_kit
from tests.kits.browser_kit import Browser
from tests.kits.console_kit import NOW, serving, wait_for
from tests.unit.jobs.table_rows import NOON, append, metrics

pytestmark = browser_kit.NEEDS_CHROMIUM
_KEEP_PLOTS = """
let made = undefined;
window.plots = [];
Object.defineProperty(window, "uPlot", { configurable: true, get: () => made, set: (uPlot) => {
  made = new Proxy(uPlot, { construct: (target, given) => window.plots[window.plots.push(new target(...given)) - 1] });
} });
"""
_SCALES = """
return window.plots.filter((plot) => plot.root.isConnected).map(({ scales, data }) => ({
  from: scales.x.min, to: scales.x.max, top: scales.y.max,
  times: data[0], largest: Math.max(...data.slice(1).flat().filter((each) => each !== null)),
}))
"""


@pytest.fixture
def plots(browser: Browser) -> Callable[[], list[dict[str, Any]]]:
    """The plots on the page: their axes and their data."""
    browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _KEEP_PLOTS})
    return lambda: wait_for(lambda: list(browser.driver.execute_script(_SCALES)), "the plots")


def rows(tables: Path, minutes: int, last: int) -> None:
    """Write a row a minute up to noon, the last with a peak."""
    for ago in range(minutes):
        peak = last if ago == 0 else 50
        row = metrics("User:a", NOON - timedelta(minutes=ago), new_pids_window=peak, admitted_pids=peak)
        append(tables, "producer_id_metrics", row)


class TestPlots:
    @pytest.mark.parametrize("fragment", ["#/?hours=24", "#/principal?name=User:a&hours=24"])
    @pytest.mark.parametrize("now", [NOW, NOON - timedelta(seconds=5)], ids=["later", "broker ahead"])
    def test_the_newest_point_is_within_the_axes(
        self, browser: Browser, plots: Callable[[], list[dict[str, Any]]], tmp_path: Path, fragment: str, now: datetime
    ) -> None:
        append(tmp_path, "producer_id_metrics", metrics("User:a", NOON - timedelta(hours=23), new_pids_window=50))
        rows(tmp_path, 3, last=259)
        with serving(str(tmp_path), now=now) as address:
            browser.fresh(f"{address}/{fragment}")
            for plot in plots():
                assert plot["from"] <= plot["times"][0]
                assert plot["times"][-1] <= plot["to"]
                assert plot["largest"] <= plot["top"]

    @pytest.mark.parametrize("fragment", ["#/?hours=168", "#/principal?name=User:a&hours=24"])
    def test_of_a_young_cluster_a_plot_begins_with_the_first_row(
        self, browser: Browser, plots: Callable[[], list[dict[str, Any]]], tmp_path: Path, fragment: str
    ) -> None:
        rows(tmp_path, 12, last=60)
        with serving(str(tmp_path)) as address:
            browser.fresh(f"{address}/{fragment}")
            for plot in plots():
                empty = plot["times"][0] - plot["from"]
                assert empty < (plot["to"] - plot["from"]) / 10
                assert len(plot["times"]) >= 12
            assert ", since 11:48:00, the first row" in browser.text()


def test_each_page_tells_which_cluster_it_is_of(browser: Browser, tables: str) -> None:
    with serving(tables) as address:
        for fragment in ("#/", "#/holds"):
            browser.fresh(f"{address}/{fragment}")
            assert browser.words("#cluster:not([hidden])") == ["Cluster kafka-1.example.com:9092 +1"]
            assert " · kafka-1.example.com:9092 +1 · pid-quota" in browser.driver.title


class TestFirstSight:
    @pytest.fixture
    def held(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], threading.Event]]:
        """Holds an answer back until an event is set."""
        events: list[threading.Event] = []

        def hold(name: str) -> threading.Event:
            answer, free = getattr(ConsoleData, name), threading.Event()
            events.append(free)
            monkeypatch.setattr(ConsoleData, name, lambda *asked: free.wait(60) and answer(*asked))
            return free

        yield hold
        for event in events:
            event.set()

    def test_what_is_there_shows_while_the_rest_says_what_is_being_read(
        self, browser: Browser, tables: str, held: Callable[[str], threading.Event]
    ) -> None:
        free = held("offenders")
        with serving(tables) as address:
            browser.look()
            browser.driver.get(f"{address}/#/")
            wait_for(
                lambda: browser.words(".figures dd") and browser.words(".chart canvas"), "the figures and the plot"
            )
            assert browser.words(".reading") == ["Reading producer_id_metrics and throttle_decisions…"]
            assert browser.words("#main[aria-busy=true]")
            free.set()
            browser.settled()
            assert browser.words(".reading") == []
            assert "Top offenders, last 24 h" in browser.text()

    def test_a_page_that_can_not_be_read_keeps_its_name_and_says_why(self, browser: Browser, tmp_path: Path) -> None:
        (tmp_path / "throttle_decisions" / "_delta_log").mkdir(parents=True)
        (tmp_path / "throttle_decisions" / "_delta_log" / "00000000000000000000.json").write_text("none")
        with serving(str(tmp_path)) as address:
            browser.look()
            browser.driver.get(f"{address}/#/decisions")
            assert "can't read table throttle_decisions" in wait_for(browser.trouble, "the trouble")
            assert browser.words("main") == ["Decisions"]
