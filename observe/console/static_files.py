"""The files of the page, read once when a console begins (console.md 5.1): a few dozen KB.

Always true: only what is in the folder by a name that was listed then is ever served.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE: Final = "index.html"


class StaticFile(NamedTuple):
    """One file."""

    body: bytes
    kind: str


def static_files() -> dict[str, StaticFile]:
    """By their paths below `/static/`."""
    return dict(_below(files("eosin.observe.console") / "static", ""))


def _below(folder: Traversable, path: str) -> list[tuple[str, StaticFile]]:
    found = []
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        suffix = "." + each.name.rpartition(".")[2]
        if each.is_dir():
            found += _below(each, f"{path}{each.name}/")
        elif suffix in KINDS:
            found.append((f"{path}{each.name}", StaticFile(each.read_bytes(), KINDS[suffix])))
    return found
