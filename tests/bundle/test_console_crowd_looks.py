"""The console with 50 principals at three widths, light and dark, checked by axe-core."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.kits import browser_kit
from tests.kits.browser_kit import Browser
from tests.kits.client_kit import install_by_npm
from tests.kits.console_kit import LONG_NAMES, NOW, crowded_tables, serving, wait_for

pytestmark = [browser_kit.NEEDS_CHROMIUM, pytest.mark.slow]

LOOKS = [((width, 900), dark) for width in (390, 1_000, 1_400) for dark in (False, True)]
PAGES = (
    "#/", "#/?hours=168", "#/throttled", "#/headroom", "#/decisions", "#/holds", "#/quotas", "#/occupancy",
    "#/principal?name=User%3Amallory&hours=6", f"#/principal?name={LONG_NAMES[0].replace('=', '%3D')}",
    "#/principal?name=User%3Amalory", "#/headrom",
)  # fmt: skip


RUN_AXE = """
const done = arguments[0];
axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => done(violations.flatMap(({ id, nodes }) =>
  nodes.map((node) => `${id}: ${node.html.slice(0, 120)}: ${node.failureSummary}`))));
"""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> str:
    return crowded_tables(tmp_path_factory.mktemp("crowd"))


@pytest.fixture(scope="module")
def console(crowd: str) -> Iterator[str]:
    with serving(crowd) as address:
        yield address


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, a checker of accessibility; npm installs it by the hash in the lock file."""
    folder = tmp_path_factory.mktemp("axe")
    install_by_npm(Path(__file__).with_name("axe"), folder)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("fragment", PAGES)
def test_each_page_is_within_its_width_whole_and_open_to_everybody(
    browser: Browser, console: str, axe: str, fragment: str, tmp_path: Path
) -> None:
    browser.fresh(f"{console}/{fragment}")
    look_around(browser, axe, tmp_path)
    assert browser.complaints() == []


def test_so_is_the_page_of_a_dead_stream(browser: Browser, crowd: str, axe: str, tmp_path: Path) -> None:
    with serving(crowd, now=NOW + timedelta(hours=1)) as address:
        browser.fresh(f"{address}/#/")
        look_around(browser, axe, tmp_path)


def test_so_is_a_page_with_a_copied_command(browser: Browser, console: str, axe: str, tmp_path: Path) -> None:
    browser.fresh(f"{console}/#/quotas")
    browser.click("td button")
    wait_for(lambda: browser.words("#command strong") != [], "what was copied")
    look_around(browser, axe, tmp_path)


def look_around(browser: Browser, axe: str, pictures: Path) -> None:
    """Check the page as it is at each width, light and dark, and keep a picture of each."""
    for size, dark in LOOKS:
        browser.look(size, dark)
        browser.picture(pictures / f"{size[0]}-{dark}.png")
        assert browser.width_of_content() <= size[0]
        assert browser.broken_words() == []
        assert browser.faults() == []
        browser.driver.execute_script(axe)
        assert browser.driver.execute_async_script(RUN_AXE) == []
