"""Runs axe-core, a checker of accessibility, in a page; npm installs it on first use, by the hash in the lock file."""

from pathlib import Path

from tests.kits.browser_kit import Browser
from tests.kits.client_kit import install_by_npm

SOURCE = Path(__file__).parents[1] / "bundle" / "axe"
_RUN = """
const done = arguments[0];
axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => done(violations.flatMap(({ id, nodes }) =>
  nodes.map((node) => `${id}: ${node.html.slice(0, 120)}: ${node.failureSummary}`))));
"""


def install_axe(folder: Path) -> str:
    """Return the source of axe-core."""
    install_by_npm(SOURCE, folder)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def violations(browser: Browser, axe: str) -> list[str]:
    """Return the violations that axe-core finds in the page as it is."""
    browser.driver.execute_script(axe)
    return [str(each) for each in browser.driver.execute_async_script(_RUN)]
