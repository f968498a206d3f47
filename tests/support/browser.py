"""A headless Chromium for tests: one tab, driven over the DevTools protocol.

with Browser() as browser:
    browser.open(path.as_uri())
    assert browser.evaluate("document.title") == "..."
    assert browser.errors == []
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "about:blank"),
)
KEY_CODES = {" ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}


def find_browser() -> str | None:
    """The Chromium on this machine, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab of a new Chromium; `errors` and `requests` list the errors of the page and the addresses it requested."""

    def __init__(self, width: int = 1240, height: int = 1000, seconds: float = 30.0) -> None:
        self.size, self.seconds = (width, height), seconds
        self.events: list[dict[str, Any]] = []
        self.ids = itertools.count(1)

    def __enter__(self) -> Self:
        from websockets.sync.client import connect  # noqa: PLC0415 (only browser tests need it)

        executable = find_browser()
        assert executable, f"no browser: none of {', '.join(NAMES)} is on PATH"
        with contextlib.ExitStack() as stack:  # stops everything that was started, even where starting fails half-way
            folder = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
            self.profile = Path(stack.enter_context(folder))
            command = [executable, f"--user-data-dir={self.profile}", "--window-size={},{}".format(*self.size), *FLAGS]
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(self._stop)
            self.socket = stack.enter_context(connect(self._tab(), max_size=None, compression=None, proxy=None))
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def _tab(self) -> str:
        """Address of the only tab, once the browser has written the port it chose to a file."""
        notice, deadline = self.profile / "DevToolsActivePort", time.monotonic() + self.seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, "the browser ended while starting"
            if notice.exists() and "\n" in (text := notice.read_text()):
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                with opener.open(f"http://127.0.0.1:{text.split()[0]}/json/list", timeout=self.seconds) as reply:
                    tabs = [tab for tab in json.load(reply) if tab["type"] == "page"]
                if tabs:
                    return str(tabs[0]["webSocketDebuggerUrl"])
            time.sleep(0.05)
        raise TimeoutError("the browser did not open its debugging port")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One DevTools command and its answer; events that arrive meanwhile are kept."""
        number = next(self.ids)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=self.seconds))
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])
            self.events.append(message)

    def open(self, url: str) -> None:
        """Go to an address and wait until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; an exception there is one here."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + self.seconds
        while not self.evaluate(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.02)

    def press(self, key: str, shift: bool = False) -> None:
        """Press and release a key, as a person would."""
        code = {"windowsVirtualKeyCode": KEY_CODES.get(key, 0), "modifiers": 8 if shift else 0, "key": key}
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def click(self, selector: str) -> None:
        """Click the middle of an element."""
        script = """(selector) => {
            const element = document.querySelector(selector);
            element.scrollIntoView({block: "center"});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }"""
        x, y = self.evaluate(f"({script})({json.dumps(selector)})")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def prefer(self, scheme: str) -> None:
        """Emulate a person's preference for a `light` or `dark` color scheme."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Save the visible part of the tab, or the whole page, as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    @property
    def errors(self) -> list[str]:
        """Uncaught exceptions, failed assertions, and errors and warnings logged since the page was opened."""
        self.evaluate("0")  # an answer comes after all earlier events
        found = []
        for event in self.events:
            name, params = event.get("method"), event.get("params", {})
            logged = name == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert")
            entry = name == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning")
            if logged or entry or name == "Runtime.exceptionThrown":
                found.append(json.dumps(params))
        return found

    @property
    def requests(self) -> list[str]:
        """Addresses that the page has requested since it was opened, its own included."""
        self.evaluate("0")
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in sent]
