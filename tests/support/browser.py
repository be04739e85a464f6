"""A headless Chromium, driven over a pipe; skips tests where none is installed."""

from __future__ import annotations

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

    def open(self, path: Path) -> None:
        """Load a page, and wait until its script has said that it is done."""
        self.events.clear()
        self._call("Page.navigate", url=path.as_uri())
        end = time.monotonic() + _PATIENCE_S
        while self.run("document.body?.dataset.ready") != "yes":
            assert time.monotonic() < end, f"the page is not ready: {self.events}"
            time.sleep(0.05)

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
