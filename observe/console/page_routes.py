"""`PageRoutes`: the console's page, its files, and the stream of its tables, over whatever stands behind them
(console.md 5 and 6).

Always true: the page loads nothing from anywhere else, runs no script and no style but its own files, and is shown in
no frame of another page.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from eosin.observe.console.sessions import Sessions
from eosin.observe.console.streams import Streams, tables_of

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
JSON: Final = "application/json"
KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE: Final = "index.html"
LONGEST_NAME: Final = 1000
"""Characters of a name that a page asks for."""


class PageRoutes:
    """The page, its files, its stream and its session, as every console has them."""

    def __init__(self, streams: Streams, sessions: Sessions) -> None:
        self._streams = streams
        self._sessions = sessions
        self._files = static_files()

    def routes(self) -> list[Route]:
        """The page, its files, the stream, the session."""
        return [
            Route("/", self._page),
            Route("/static/{name:path}", self._file),
            Route("/api/v1/stream", self._stream),
            Route("/api/v1/session", self._session, methods=["POST"]),
        ]

    async def _page(self, request: Request) -> Response:
        return _served(self._files[PAGE])

    async def _file(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        return Response(status_code=404) if found is None else _served(found)

    async def _stream(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        asked = request.query_params
        last_id = request.headers.get("last-event-id", asked.get("last", ""))
        frames = self._streams.frames(last_id, tables_of(asked.get("watch", "")), once="once" in asked)
        return StreamingResponse(frames, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _session(self, request: Request) -> Response:
        """The guard has seen the token: a cookie stands for it from now on."""
        return Response(b"{}\n", media_type=JSON, headers={"set-cookie": self._sessions.begin()})


def json_body(value: msgspec.Struct, *, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value) + b"\n", status_code=status, media_type=JSON)


def refused(why: str, *, status: int) -> Response:
    """The reason why there is no answer, as the page shows it."""
    return Response(msgspec.json.encode({"error": why}) + b"\n", status_code=status, media_type=JSON)


class StaticFile(NamedTuple):
    """A file of the page."""

    body: bytes
    kind: str


def static_files() -> dict[str, StaticFile]:
    """The files of the page by their paths below `/static/`: a few dozen KB, read once when a console begins. Only what
    is in the folder by a name that was listed then is ever served."""
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


def _served(file: StaticFile) -> Response:
    return Response(file.body, headers={"content-type": file.kind, "content-security-policy": POLICY})
