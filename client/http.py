"""The little HTTP that the command line asks an Eosin broker with: one GET, one answer."""

import asyncio
import http.client
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

MOST_BYTES: Final = 16 * 1024 * 1024


class HttpError(Exception):
    """Says why there is no answer, in one sentence."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A status and a body."""

    status: int
    body: bytes


def part(name: str) -> str:
    """`name` as one part of a path."""
    return quote(name, safe="")


async def get(
    url: str, *, timeout_ms: int, token: str | None = None, accept: str = "*/*", tls: ssl.SSLContext | None = None
) -> HttpResponse:
    """GET `url`, which begins with http:// or https://; `tls` decides whom to trust, else the system's authorities do.
    Raises `HttpError`."""
    return await asyncio.to_thread(_get, url, timeout_ms / 1000, token, accept, tls)


def _get(url: str, timeout_s: float, token: str | None, accept: str, tls: ssl.SSLContext | None) -> HttpResponse:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise HttpError(f"{url!r} is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise HttpError(f"{url!r} must be http://HOST:PORT/... or https://HOST:PORT/...")
    connection = http.client.HTTPConnection(parts.hostname, port or 80, timeout=timeout_s)
    if parts.scheme == "https":
        context = tls or ssl.create_default_context()
        connection = http.client.HTTPSConnection(parts.hostname, port or 443, timeout=timeout_s, context=context)
    headers = {"Accept": accept} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    try:
        connection.request("GET", parts.path or "/", headers=headers)
        response = connection.getresponse()
        return HttpResponse(response.status, response.read(MOST_BYTES))
    except ssl.SSLCertVerificationError as error:
        raise HttpError(f"{parts.netloc} has a certificate that is not trusted: {error.verify_message}") from None
    except (OSError, http.client.HTTPException) as error:
        raise HttpError(f"{parts.netloc} does not answer over HTTP: {error or type(error).__name__}") from None
    finally:
        connection.close()
