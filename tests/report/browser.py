"""A headless Chromium, spoken to by its DevTools protocol: what a page does in front of a person."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tornado.websocket import WebSocketClientConnection, websocket_connect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--window-size=1500,1100",
)
_SECONDS = 120.0
_LOADED = """
    new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))
"""
_SHOWN = """
    [...document.querySelectorAll('tr.molecule')].map(
        row => row.querySelector('td.structure .name').textContent)
"""


class Tab:
    """A tab of the browser.

    Attributes
    ----------
    faults : list of str
        Errors of scripts and in the console.
    requests : list of str
        All that was asked for, but for the page itself and what it holds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: WebSocketClientConnection) -> None:
        self._loop, self._socket, self._number, self._session = loop, socket, 0, ""
        self.faults: list[str] = []
        self.requests: list[str] = []

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        return self._loop.run_until_complete(asyncio.wait_for(self._ask(method, parameters), _SECONDS))

    async def _ask(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        await self._socket.write_message(json.dumps(message))
        while True:
            text = await self._socket.read_message()
            assert text is not None, "the browser has gone"
            answer = json.loads(text)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.faults.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.faults.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.faults.append(str(params["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, path: Path) -> None:
        """Open a file and wait until it has been drawn."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.ask(f"{domain}.enable")
        self.ask("Page.navigate", url=path.as_uri())
        self.run(_LOADED)
        self.settle()
        self.requests = [url for url in self.requests if url != path.as_uri()]

    def run(self, script: str) -> Any:
        """Return the value of an expression, once it is there."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until the drawings in view are there."""
        self.run("Promise.all(page.drawn.values()).then(() => new Promise(done => setTimeout(done, 50)))")

    def type(self, selector: str, text: str) -> None:
        """Put a text into a field, as typing does."""
        self.run(
            f"(box => {{ box.value = {json.dumps(text)}; box.dispatchEvent(new Event('input')); }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )

    def click(self, selector: str) -> None:
        """Click on an element."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def shown(self) -> list[str]:
        """Return the names of the molecules in view."""
        return list(self.run(_SHOWN))

    def picture(self, path: Path) -> None:
        """Write a screenshot."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


async def _connected(address: str) -> WebSocketClientConnection:
    return await websocket_connect(address, max_message_size=1 << 28)


async def _closed(socket: WebSocketClientConnection) -> None:
    """Close it within its own loop: the thread may have none, as after a test of something else."""
    socket.close()


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """Yield a tab of a browser that has its profile in `folder`."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *_OPTIONS, "--remote-debugging-port=0", f"--user-data-dir={folder}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    loop = asyncio.new_event_loop()
    try:
        assert process.stderr is not None
        lines = (re.search(r"DevTools listening on (ws://\S+)", line) for line in process.stderr)
        address = next(filter(None, lines))[1]
        socket = loop.run_until_complete(_connected(address))
        yield Tab(loop, socket)
        loop.run_until_complete(_closed(socket))
    finally:
        process.kill()
        process.wait()
        loop.close()
