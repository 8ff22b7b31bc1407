"""A headless Chromium that looks at a broker's console, and what it must not do: ask another host, or complain.

The browser is Debian's `chromium` (`.ci/tools` installs it), one that `playwright install chromium` has fetched, or
that of `CONSOLE_BROWSER`.
"""

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Route, sync_playwright
from toolchains import NotHere, fetch, made, tool
from waiting import HANG_S

MISSING = (
    "no Chromium is here for tests of the console: .ci/tools installs Debian's chromium, `playwright install chromium`"
    " fetches one, CONSOLE_BROWSER names one"
)
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WAIT_MS = HANG_S * 1000
"""Of a browser too: on a busy machine half a minute is not enough to load a page."""
AXE = "axe-core@4.14.1"
"""Finds what people with a screen reader, a keyboard or weak eyes cannot use (MPL-2.0; fetched for tests alone)."""
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser. Raises NotHere."""
    with sync_playwright() as playwright:
        program = os.environ.get("CONSOLE_BROWSER") or next(filter(None, map(shutil.which, PROGRAMS)), None)
        if program is None and not Path(playwright.chromium.executable_path).exists():
            raise NotHere(MISSING)
        # Chromium's sandbox needs what root and containers do not have; the page is our own.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=WAIT_MS)
        try:
            yield browser
        finally:
            browser.close()


def axe() -> str:
    """The source of axe-core. Raises NotHere."""
    npm = tool("npm", "axe-core, which looks for what is not accessible")

    def get(folder: Path) -> None:
        fetch([npm, "pack", AXE], AXE, cwd=folder)
        (packed,) = folder.glob("*.tgz")
        with tarfile.open(packed) as archive:
            found = archive.extractfile("package/axe.min.js")
            assert found is not None
            (folder / "axe.min.js").write_bytes(found.read())

    return (made("axe-core", [AXE], get) / "axe.min.js").read_text()


def findings(page: Page, source: str) -> list[str]:
    """The faults that axe finds on a page as it is."""
    page.evaluate(source)  # past the policy of the page, which would let no foreign script in
    found = page.evaluate("levels => axe.run(document, {runOnly: levels})", LEVELS)
    return [f"{each['id']}: {node['html'][:160]}" for each in found["violations"] for node in each["nodes"]]


class Watched:
    """A page, and all that it should not have done."""

    def __init__(self, browser: Browser, http: str, **how: Any) -> None:
        """`http` is HOST:PORT; `how` goes to the browser's context (color_scheme, viewport)."""
        self.http = http
        self.complaints: list[str] = []
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **how)
        context.set_default_timeout(WAIT_MS)
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self._said(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.route("**/*", self._asked)

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")

    def _asked(self, route: Route) -> None:
        if not route.request.url.startswith(f"http://{self.http}/"):
            self.complaints.append(f"asked for {route.request.url}")
            route.abort()
        else:
            route.continue_()

    def open(self, place: str = "") -> Page:
        """The page at a place behind `#/`, once it is live."""
        self.page.goto(f"http://{self.http}/#/{place}")
        self.page.locator("#connection.live").wait_for()
        return self.page

    def close(self) -> None:
        """The end; nothing must have been complained about."""
        self.page.context.close()
        assert self.complaints == []
