"""The live page as a person uses it in Chromium, against the real server, whose events can be held back."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import ClientDisconnect

from fbrag_cli.serving.process.access import Access
from fbrag_cli.session.settings import ModelSettings
from fbrag_cli.storage.cache import NOWHERE, Cache
from tests.chromium import measured, until, visit
from tests.serving.live_server import live

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

TOKEN = "open-sesame-open-sesame"
QUESTION = "Who sealed the box of the chronometer?"


@dataclass
class Gate:
    """Stands between the server and the browser, and holds back the events of the names in `held`.

    breaks: name of an event after which the connection breaks, once.
    """

    held: set[str] = field(default_factory=set)
    breaks: str = ""

    def around(self, app: Any) -> Any:
        async def run(scope: Any, receive: Any, send: Any) -> None:
            async def sent(message: Any) -> None:
                name = message.get("body", b"").split(b"\n", 1)[0].removeprefix(b"event: ").decode("utf-8", "replace")
                while name in self.held:
                    await anyio.sleep(0.02)
                await send(message)
                if name and name == self.breaks:
                    self.breaks = ""
                    raise ClientDisconnect

            await app(scope, receive, sent)

        return run


@dataclass
class Served:
    """A server that can be stopped and started again at the same address."""

    models: ModelSettings
    documents: list[str]
    cache: Cache = NOWHERE
    gate: Gate = field(default_factory=Gate)
    port: int = 0
    _running: ExitStack | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        self.port = self.port or free_port()
        self._running = ExitStack()
        access = Access(host="127.0.0.1", port=self.port, token=TOKEN)

        def around(app: Any) -> Any:
            return access.guard(self.gate.around(app), lambda line: None)

        server = live(self.models, self.documents, cache=self.cache, port=self.port, around=around, parallel=2)
        self.live = self._running.enter_context(server)

    @property
    def running(self) -> bool:
        return self._running is not None

    def stop(self) -> None:
        if self._running:
            self._running.close()
        self._running = None


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


@contextmanager
def serving(models: ModelSettings, *documents: Path, cache: Cache = NOWHERE) -> Iterator[Served]:
    """Serve documents until the block ends."""
    served = Served(models, [*map(str, documents)], cache)
    served.start()
    try:
        yield served
    finally:
        served.gate.held.clear()
        served.stop()


def opened(
    chromium: Chrome, address: str, *, width: int = 1400, height: int = 900, scheme: str = "light", **features: str
) -> None:
    """The page in a fresh tab, with nothing kept from before."""
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    media += [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    for command, parameters in {
        "Emulation.setScriptExecutionDisabled": {"value": False},
        "Emulation.setEmulatedMedia": {"media": "screen", "features": media},
        "Emulation.setDeviceMetricsOverride": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        "Network.emulateNetworkConditions": {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
    }.items():
        chromium.execute_cdp_cmd(command, parameters)
    page = address.partition("?")[0]
    visit(chromium, f"{page}?token={TOKEN}")
    visit(chromium, f"{page}nothing")  # the page that was open before would keep its turns again
    chromium.execute_script("sessionStorage.clear()")
    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    visit(chromium, address)
    until(chromium, "document.querySelector('#feed[aria-busy=false]') || document.querySelector('#nothing:not([hidden])')")


def press(chromium: Chrome, *keys: str) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(chromium).send_keys(*keys).perform()


def ask(chromium: Chrome, question: str = QUESTION) -> None:
    from selenium.webdriver import Keys
    from selenium.webdriver.common.by import By

    chromium.find_element(By.ID, "question").send_keys(question, Keys.ENTER)


def text_of(chromium: Chrome, selector: str) -> str:
    return str(measured(chromium, f"document.querySelector({selector!r}).innerText"))


def click(chromium: Chrome, selector: str) -> None:
    from selenium.webdriver.common.by import By

    chromium.find_element(By.CSS_SELECTOR, selector).click()


def in_view(chromium: Chrome, selector: str) -> bool:
    within = "(r => r.top >= 0 && r.bottom <= innerHeight)"
    return bool(measured(chromium, f"{within}(document.querySelector({selector!r}).getBoundingClientRect())"))


def dropped(chromium: Chrome, name: str, text: str) -> None:
    """Drop a file with a text onto the page."""
    chromium.execute_script(
        """const files = new DataTransfer();
        files.items.add(new File([arguments[1]], arguments[0]));
        for (const kind of ["dragover", "drop"])
            document.body.dispatchEvent(new DragEvent(kind, {dataTransfer: files, bubbles: true, cancelable: true}));""",
        name,
        text,
    )
