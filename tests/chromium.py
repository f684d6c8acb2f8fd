"""A Chromium that tests drive, and what they measure in it."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import needs

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PATIENCE = 30  # seconds
_FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-dev-shm-usage""".split()


@contextmanager
def started(profile: Path) -> Iterator[Chrome]:
    """A browser with a fresh profile in the folder `profile`. Skips where there is none."""
    needs("selenium")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs Chromium and ChromeDriver: apt-get install chromium chromium-driver")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    browser = Chrome(options=options, service=Service(driver))
    browser.execute_cdp_cmd("Network.enable", {})
    yield browser
    browser.quit()


def measured(chromium: Chrome, expression: str, *, awaited: bool = False) -> Any:
    """The value of an expression of the inspector, which works where the page's own scripts are off. awaited: of its promise."""
    asked = {"expression": expression, "awaitPromise": awaited, "returnByValue": True}
    told = chromium.execute_cdp_cmd("Runtime.evaluate", asked)
    assert "exceptionDetails" not in told, told
    return told["result"].get("value")


def until(chromium: Chrome, expression: str, seconds: float = PATIENCE) -> None:
    """Wait for an expression to be true. It may fail before: of an element that is not there yet, of a page that is just left."""
    from selenium.common.exceptions import WebDriverException

    def holds() -> bool:
        with suppress(WebDriverException):
            return bool(measured(chromium, f"(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()"))
        return False

    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, (
            f"not within {seconds} s: {expression}: {measured(chromium, 'document.body.innerText')[:800]}"
        )
        time.sleep(0.02)


def visit(chromium: Chrome, address: str) -> None:
    """Open an address, and wait for its page."""
    _load(chromium, lambda: chromium.get(address))


def reload(chromium: Chrome) -> None:
    """Load the page again, and wait for it."""
    _load(chromium, chromium.refresh)


def _load(chromium: Chrome, go: Callable[[], None]) -> None:
    """Wait for the page that `go` brings. ChromeDriver may return from it before, on the old page or an empty one."""
    measured(chromium, "document.isLeft = true")
    go()
    until(chromium, "!document.isLeft && document.readyState === 'complete'")


def requested(chromium: Chrome) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    return [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]


def luminance(color: str) -> float:
    channels = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
    r, g, b = ((c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(chromium: Chrome, selector: str) -> float:
    """Of the first such element's text to the backgrounds behind it, one painted over the other (WCAG 2, contrast ratio)."""
    color, behind = measured(
        chromium,
        f"""(e => {{
            const canvas = document.createElement('canvas').getContext('2d', {{willReadFrequently: true}});
            const painted = color => {{
                canvas.fillStyle = color;
                canvas.fillRect(0, 0, 1, 1);
                return canvas.getImageData(0, 0, 1, 1).data.slice(0, 3).join();
            }};
            const color = getComputedStyle(e).color, behind = [];
            for (; e; e = e.parentElement) behind.unshift(getComputedStyle(e).backgroundColor);
            const last = behind.map(painted).at(-1);
            return [painted(color), last];
        }})(document.querySelector({selector!r}))""",
    )
    light, dark = sorted((luminance(color), luminance(behind)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
