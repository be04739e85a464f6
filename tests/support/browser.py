"""A headless Chromium, driven over a pipe; skips tests where none is installed."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

__all__ = ["Browser", "chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Chromium reads commands from descriptor 3 and answers on 4
_LAUNCH = "import os, sys; os.dup2({}, 3); os.dup2({}, 4); os.execv(sys.argv[1], sys.argv[1:])"
_PATIENCE_S = 60
_BEYOND = """(() => {
  const edge = document.documentElement.clientWidth + 1;
  const kept = (e) => { for (let up = e.parentElement; up && up !== document.body; up = up.parentElement)
    if (getComputedStyle(up).overflowX !== "visible" || getComputedStyle(up).position === "fixed") return true;
    return getComputedStyle(e).position === "fixed"; };
  const wide = [...document.body.querySelectorAll("*")].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.right > edge && getComputedStyle(e).visibility !== "hidden" && !kept(e); });
  const whole = document.documentElement.scrollWidth;
  const page = whole > edge ? [`the page is ${whole} wide`] : [];
  return [...page, ...wide.slice(0, 3).map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 60)}`)];
})()"""


def chromium() -> str:
    """The program; skips the test, with the reason, where there is none."""
    found = next((path for path in map(shutil.which, _NAMES) if path), None)
    if found is None:
        pytest.skip(f"no browser is installed: one of {', '.join(_NAMES)}")
    return found


class Browser:
    """One page of a browser, as a context."""

    def __init__(self, folder: Path) -> None:
        theirs, ours = os.pipe(), os.pipe()
        flags = (
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *("--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={folder}"),
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH.format(theirs[0], ours[1]), chromium(), *flags, "about:blank"],
            pass_fds=(theirs[0], ours[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs[0])
        os.close(ours[1])
        self._to, self._from = os.fdopen(theirs[1], "wb"), os.fdopen(ours[0], "rb")
        self._numbers, self._session, self.events = itertools.count(1), None, []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._to.close()
        self._process.terminate()
        self._process.wait(timeout=_PATIENCE_S)
        self._from.close()

    def open(self, path: Path, done: str = "document.body?.dataset.ready === 'yes'") -> None:
        """Load a page, and wait until an expression is true, by default until its script has said that it is done."""
        self.events.clear()
        self._call("Page.navigate", url=path.as_uri())
        end = time.monotonic() + _PATIENCE_S
        while self.run(f"location.href === {json.dumps(path.as_uri())} && {done}") is not True:
            assert time.monotonic() < end, f"the page is not ready: {self.events}"
            time.sleep(0.05)

    def faults(self) -> list[str]:
        """What scripts of the page threw or logged, and what it asked for elsewhere, since it was opened."""
        asked = [
            e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"
        ]
        thrown = [str(e) for e in self.events if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] + thrown

    def resize(self, width: int, height: int = 900) -> None:
        """Show pages at a width in CSS pixels; below 600 as a phone does."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def picture(self) -> bytes:
        """What is shown, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def beyond(self) -> list[str]:
        """Elements that reach beyond the right edge, where nothing scrolls or cuts them."""
        return self.run(_BEYOND)

    def run(self, script: str):
        """The value of an expression on the page."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more) -> None:
        """What a mouse does, such as ``mousePressed``."""
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def _call(self, method: str, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _message(self) -> bytes:
        parts = bytearray()
        while (byte := self._from.read(1)) != b"\0":
            assert byte, "the browser has ended"
            parts += byte
        return bytes(parts)
