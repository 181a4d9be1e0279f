"""Headless Chromium, driven by selenium (Debian's `chromium` and `chromium-driver`)."""

import base64
import contextlib
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kits.console_kit import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

WIDE, PHONE = (1200, 800), (390, 844)
SETTLED = "return document.querySelector('main').dataset.shows === location.hash"
_ACCESSIBILITY = Path(__file__).parents[1] / "bundle" / "accessibility.js"
LOADED = "return window.performance.getEntriesByName('shown')[0]?.startTime ?? null"

# A text that may not break is one rectangle, unless it broke.
_BROKEN_WORDS = """
const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), broken = [];
while (texts.nextNode()) {
  const node = texts.currentNode;
  for (const { 0: word, index } of node.parentElement.closest("td") ? node.data.matchAll(/[\\p{L}\\p{N}]+/gu) : []) {
    const range = document.createRange();
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    if (new Set([...range.getClientRects()].map((each) => each.top)).size > 1) broken.push(word);
  }
}
return broken;
"""
_MISSING = " and no ".join(name for name in ("chromium", "chromedriver") if shutil.which(name) is None)
NEEDS_CHROMIUM = pytest.mark.skipif(bool(_MISSING), reason=f"no {_MISSING}: apt-get install chromium chromium-driver")


@contextlib.contextmanager
def chromium(profile: Path) -> "Iterator[Browser]":
    """Start a browser with a profile folder of its own."""
    with warnings.catch_warnings():
        # Warnings of selenium's own imports are not ours to mend.
        warnings.simplefilter("ignore")
        from selenium import webdriver
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for switch in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "hide-scrollbars", "lang=en"):
        options.add_argument(f"--{switch}")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    """What the tests do with a browser."""

    def __init__(self, driver: "Chrome") -> None:
        self.driver = driver

    def look(self, size: tuple[int, int] = WIDE, dark: bool = False) -> None:
        """Set the size of the page and the operator's taste."""
        phone = size == PHONE
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": phone}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        media = {"features": [{"name": name, "value": value} for name, value in features.items()]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def open(self, address: str) -> float:
        """Load a page afresh; gives the milliseconds from the click to its content."""
        self.driver.get("about:blank")
        # The page before may have asked a console that has ended.
        self.complaints()
        self.driver.get(address)
        return float(wait_for(lambda: self._script(LOADED), f"the content of {address}"))

    def fresh(self, address: str) -> None:
        """Load a page afresh on a wide, light screen, and forget what the browser complained about."""
        self.look()
        self.open(address)
        self.complaints()

    def go(self, fragment: str) -> None:
        """Go to another page of the console without loading it afresh."""
        self.driver.execute_script("location.hash = arguments[0]", fragment)
        self.settled()

    def settled(self) -> None:
        """Wait until the page of the address is shown."""
        wait_for(lambda: self.driver.execute_script(SETTLED), "the content")

    def arrived(self, heading: str) -> None:
        """Wait for the page with this heading and for its content, which comes later."""
        wait_for(lambda: self.words("h1") == [heading], f"the page {heading}")
        self.settled()

    # In one step of the browser each: elements held from Python would go stale with the next refresh.

    def words(self, selector: str) -> list[str]:
        """Return the text of each element that fits."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent.trim())"
        return [str(each) for each in self._script(script, selector)]

    def click(self, selector: str, words: str | None = None) -> None:
        """Click the first element that fits, and has these words if they are given."""
        self.driver.execute_script(
            "[...document.querySelectorAll(arguments[0])]"
            ".find((each) => arguments[1] === null || each.textContent === arguments[1]).click()",
            selector,
            words,
        )

    def trouble(self) -> str:
        """Return what the page complains about to its reader; empty if nothing."""
        script = "const t = document.querySelector('#trouble'); return t.hidden ? '' : t.textContent"
        return str(self._script(script))

    def text(self) -> str:
        """Return the text that a reader sees."""
        return str(self._script("return document.body.innerText.replaceAll('\u00a0', ' ')"))

    def press(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def focused(self) -> str:
        """Return what has the focus, as text that a person would know it by."""
        script = (
            "const a = document.activeElement; return a.textContent.trim() || a.getAttribute('aria-label') || a.tagName"
        )
        return str(self._script(script))

    def faults(self) -> list[str]:
        """Return what keeps people out of the page, see accessibility.js."""
        return [str(each) for each in self._script(_ACCESSIBILITY.read_text(encoding="utf-8"))]

    def hide(self, hidden: bool) -> None:
        """Tell the page that it is in a tab behind others, or in front again."""
        self._script(
            "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });"
            "document.dispatchEvent(new Event('visibilitychange'))",
            hidden,
        )

    def refresh(self) -> None:
        """Let the page refresh now, and wait until it has."""
        self._script("document.querySelector('main').firstElementChild.dataset.old = '1'")
        self.hide(False)
        wait_for(lambda: not self.words("main [data-old]"), "the refresh")

    def broken_words(self) -> list[str]:
        """Return the words in tables that break over lines elsewhere than after punctuation."""
        return [str(each) for each in self._script(_BROKEN_WORDS)]

    def width_of_content(self) -> int:
        return int(self._script("return document.documentElement.scrollWidth"))

    def complaints(self) -> list[str]:
        """Return the console's errors and warnings since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def picture(self, path: Path, height: int | None = None) -> None:
        """Save what is shown as a PNG: the whole page, or its first so many pixels."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": min(height or size["height"], size["height"]),
            "scale": 1,
        }
        wanted = {"format": "png", "captureBeyondViewport": True, "clip": clip, "optimizeForSpeed": False}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", wanted)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _script(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)
