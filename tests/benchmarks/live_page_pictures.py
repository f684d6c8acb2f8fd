"""Pictures of the live page in each of its states, wide, narrow and dark, for eyes that judge them.

python -m tests.benchmarks.live_page_pictures FOLDER [STATE...]: the default models answer from the user's cache, where
`fbrag ask tests/documents/inquiry.txt` has answered the questions before.
"""

from __future__ import annotations

import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fbrag_cli.session.settings import CacheSettings, ModelSettings
from tests.chromium import measured, started, until
from tests.conftest import INQUIRY
from tests.serving.live_browser import Served, ask, click, dropped, opened, serving

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

SURE = "Who first marked the Threshers on a chart, and when?"
UNSURE = "Who owns the works where the anchor that lost its fluke was forged?"
UNSAID = "What salary did the keeper of the Skarn Light receive?"

LAST = "[...document.querySelectorAll('.turn')].at(-1)"
DONE = f"{LAST}.querySelector('.tools').checkVisibility() || {LAST}.matches('.folded')"

Picture = Callable[["Chrome", Served], None]


def asked(chromium: Chrome, served: Served, *questions: str) -> None:
    for question in questions:
        ask(chromium, question)
        until(chromium, DONE, 300)


def held(chromium: Chrome, served: Served, event: str) -> None:
    """A question whose events have come as far as `event`, which has not."""
    served.gate.held.add(event)
    ask(chromium, UNSURE)
    seen = {"selected": ".of-sources", "token": ".of-samples", "done": ".answer"}[event]
    until(chromium, f"{LAST}.querySelector('{seen}').checkVisibility()", 300)


def failed(chromium: Chrome, served: Served) -> None:
    measured(chromium, "document.querySelector('[name=large]').append(new Option('no-such-model', 'no-such-model', true, true))")
    asked(chromium, served, SURE)


def settings(chromium: Chrome, served: Served) -> None:
    click(chromium, "#question")
    click(chromium, ".models summary")


def shelf(chromium: Chrome, served: Served) -> None:
    asked(chromium, served, UNSURE)
    measured(chromium, "document.getElementById('unread').open = true")


def with_a_drop(chromium: Chrome, served: Served) -> None:
    dropped(chromium, "letter.txt", "\n".join(INQUIRY.read_text("utf-8").splitlines()[40:90]))
    until(chromium, "document.querySelectorAll('.document').length === 2")
    measured(chromium, "document.getElementById('shelf').open = true")


def source(chromium: Chrome, served: Served) -> None:
    asked(chromium, served, SURE)
    click(chromium, ".turn .sources a")
    until(chromium, "document.querySelector('#feed mark.best')")


def gone(chromium: Chrome, served: Served) -> None:
    held(chromium, served, "done")
    served.gate.held.clear()
    served.stop()
    until(chromium, "!document.getElementById('gone').hidden")


STATES: dict[str, Picture] = {
    "empty": lambda chromium, served: None,
    "nothing": lambda chromium, served: None,
    "reading": partial(held, event="selected"),
    "samples": partial(held, event="token"),
    "streaming": partial(held, event="done"),
    "answered": lambda chromium, served: asked(chromium, served, SURE),
    "unsure": lambda chromium, served: asked(chromium, served, UNSURE),
    "unsaid": lambda chromium, served: asked(chromium, served, UNSAID),
    "several": lambda chromium, served: asked(chromium, served, UNSURE, UNSAID, SURE),
    "source": source,
    "failed": failed,
    "settings": settings,
    "folder": shelf,
    "dropped": with_a_drop,
    "gone": gone,
}
FORMS = {
    "wide": (1440, 900, "light"),
    "dark": (1440, 900, "dark"),
    "narrow": (360, 760, "light"),
    "narrow-dark": (360, 760, "dark"),
}


def folder_of(at: Path) -> Path:
    """A folder of ten parts of the document, and a file that cannot be read."""
    (folder := at / "sittings").mkdir()
    lines = INQUIRY.read_text("utf-8").splitlines()
    for n in range(10):
        (folder / f"sitting-{n + 1:02}.txt").write_text("\n".join(lines[n * 110 : (n + 1) * 110]), "utf-8")
    (folder / "sketch.pdf").write_bytes(b"%PDF-1.7 no pages")
    return folder


def small(chromium: Chrome, width: int, height: int) -> bytes:
    """What is seen, as a picture of some 40 kB."""
    top = measured(chromium, "scrollY")
    clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 0.75 if width > 1000 else 1}
    shot = chromium.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 45, "clip": clip})
    return b64decode(shot["data"])


def main(to: Path, states: list[str]) -> None:
    to.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as at, started(Path(at) / "profile") as chromium:
        folder = folder_of(Path(at))
        for state in states or STATES:
            with serving(ModelSettings(), folder if state == "folder" else INQUIRY, cache=CacheSettings().opened()) as served:
                for form, (width, height, scheme) in FORMS.items():
                    served.gate.held.clear()
                    if not served.running:
                        served.start()
                    opened(chromium, served.address, width=width, height=height, scheme=scheme)
                    STATES[state](chromium, served)
                    time.sleep(0.8)  # for what moves
                    chromium.save_screenshot(str(to / f"{state}-{form}.png"))
                    (to / f"{state}-{form}.webp").write_bytes(small(chromium, width, height))
                    print(f"{state}-{form}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
