"""A headless Chromium for tests of pages, driven through its DevTools pipe: no driver, no port.

In: a page, scripts, keys.  Out: what scripts return, errors of the page, requests, pictures.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Browser", "chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--force-device-scale-factor=1", "--window-size=1440,900",
    "--remote-debugging-pipe",
)  # fmt: skip
# The browser reads from 3 and writes to 4; either may be what the other end has here.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number)
os.execvp(sys.argv[3], sys.argv[3:])
"""
_WAIT = 15.0
"""Seconds for an answer, on a machine that has other work too."""
_KEYS = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
         "ArrowDown": 40, "End": 35, "Home": 36, "Tab": 9}  # fmt: skip


def chromium() -> str:
    """The browser; a skip where there is none."""
    for name in _NAMES:
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("could not find 'chromium'")


class Browser:
    """One browser with one page; `errors` and `requests` are those of the page since `open`."""

    def __init__(self, program: str, folder: Path) -> None:
        taken, given = os.pipe(), os.pipe()
        command = [program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(taken[0]), str(given[1]), *command],
            pass_fds=(taken[0], given[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(taken[0])
        os.close(given[1])
        self._to, self._from = taken[1], given[0]
        self._pending, self._ids, self._session = b"", itertools.count(1), ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        try:
            self.call("Browser.close")
            self._process.wait(5)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)

    # -- what tests do

    def resize(self, width: int, height: int = 900) -> None:
        """Make the window so many pixels large; 0 and 0 give it its own size back."""
        scale = {"deviceScaleFactor": 1 if width else 0, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, **scale)

    def open(self, path: Path, place: str = "", dark: bool = False) -> None:
        """Show a file, and wait until it says that it is ready."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url="about:blank")
        self.errors, self.requests = [], []
        self.call("Page.navigate", url=path.resolve().as_uri() + place)
        self.until("performance.getEntriesByName('ready').length === 1")

    def run(self, script: str) -> Any:
        """What an expression is worth in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _WAIT
        while not self.run(f"Boolean({script})"):
            late = time.monotonic() > end or bool(self.errors)
            assert not late, f"never true: {script}; {self.errors}"
            time.sleep(0.01)

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements of a selector that are shown."""
        shown = "filter(e => e.checkVisibility()).map(e => e.innerText)"
        found: list[str] = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].{shown}"
        )
        return found

    def click(self, selector: str) -> None:
        """Click into the middle of an element, as a mouse does."""
        script = f"""(() => {{
            const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "nearest"}});
            const b = e.getBoundingClientRect();
            return [b.x + b.width / 2, b.y + b.height / 2];
        }})()"""
        self.click_at(*self.run(script))

    def click_at(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def key(self, *names: str) -> None:
        """Press keys, by name: `ArrowDown`; or letters."""
        for name in names:
            told = {"key": name, "windowsVirtualKeyCode": _KEYS.get(name, ord(name[0].upper()))}
            text = {"text": "\r"} if name == "Enter" else {"text": name} if len(name) == 1 else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **told, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **told)
        self.settle()

    def write(self, text: str) -> None:
        """Write into what has the focus."""
        self.call("Input.insertText", text=text)
        self.settle()

    def settle(self) -> None:
        """Wait until the page has drawn twice."""
        script = "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"
        self.call("Runtime.evaluate", expression=script, awaitPromise=True)

    def picture(self, path: Path) -> None:
        """Write a picture of the window."""
        self.settle()
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    # -- the protocol: JSON with a zero byte after each message

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        answer = self._answer(lambda each: each.get("id") == number)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _answer(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + _WAIT
        while True:
            message, zero, rest = self._pending.partition(b"\0")
            if zero:
                self._pending = rest
                told: dict[str, Any] = json.loads(message)
                if wanted(told):
                    return told
                self._note(told)
                continue
            if not select.select([self._from], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            read = os.read(self._from, 1 << 20)
            if not read:
                raise EOFError("the browser ended")
            self._pending += read

    def _note(self, event: dict[str, Any]) -> None:
        """Keep what went wrong in the page, and what it asked for."""
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(told["exceptionDetails"])[:600])
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
