"""`eosin console` over a cluster, in its own process, and what a page of it is sent."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from waiting import HANG_S


class ConsolePage:
    """A page that knows the console's token, if there is one."""

    def __init__(self, address: str, token: str) -> None:
        """`address`: HOST:PORT; `token`: empty for none."""
        self.address = address
        self._token = token

    def get(self, path: str, *, with_token: bool = True) -> httpx.Response:
        """A resource of the console."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token and with_token else {}
        return httpx.get(f"http://{self.address}{path}", headers=headers, timeout=HANG_S)

    def tables(self) -> dict[str, dict[Any, Any]]:
        """The rows that a page is sent first, by table and key."""
        found: dict[str, dict[Any, Any]] = {}
        for line in self.get("/api/v1/stream?once").text.splitlines():
            if line.startswith("data: "):
                for name, changes in json.loads(line.removeprefix("data: "))["tables"].items():
                    found.setdefault(name, {}).update({row["key"]: row for row in changes.get("rows", ())})
        return found


@contextmanager
def console_of(address: str, environment: Mapping[str, str] | None = None) -> Iterator[ConsolePage]:
    """A console over the cluster at `address`, ended by SIGTERM; `environment`: variables beside those of the test."""
    command = [sys.executable, "-m", "eosin.cli", "console", "--http", "0", "--bootstrap-server", address]
    variables = {**os.environ, **(environment or {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stdout is not None
        try:
            told = process.stdout.readline().strip()
            assert told.startswith(f"console of {address}: http://127.0.0.1:")
            http, _, token = told.partition("http://")[2].partition("/#token=")
            yield ConsolePage(http.rstrip("/"), token)
        finally:
            process.terminate()
    assert process.returncode == 0
