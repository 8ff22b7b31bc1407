"""Fetches a client's bearer token: from a file, or an OAuth 2 server by the grant "client credentials" (RFC 6749).

Blocking: ask from a thread. Always true: redirects are not followed, so the secret goes nowhere but to the address in
the settings; what the server says is shown in no error but for its OAuth error code.
"""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from eosin.client.errors import AuthenticationFailed, ConnectionFailed
from eosin.client.security.settings import Login
from eosin.protocol.sasl.oauthbearer import MAX_TOKEN_CHARS

TIMEOUT_S: Final = 10.0
MAX_RESPONSE_BYTES: Final = 1 << 20


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def token_of(login: Login) -> str:
    """A token that is good now. Raises AuthenticationFailed, or ConnectionFailed where trying again may help."""
    token = _of_file(login.token_url) if login.token_url.startswith("file:") else _of_server(login)
    if not token or len(token) > MAX_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        raise AuthenticationFailed(f"{login.token_url} gives no token that can be sent")
    return token


def _of_file(url: str) -> str:
    path = urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_TOKEN_CHARS + 2).decode("ascii", "replace").strip()
    except OSError as error:
        raise AuthenticationFailed(f"cannot read the token in {path}: {error.strerror or error}") from None


def _of_server(login: Login) -> str:
    form = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
    # RFC 6749 2.3.1: both are percent-encoded before they are joined.
    pair = ":".join(urllib.parse.quote_plus(each) for each in (login.client_id, login.client_secret))
    request = urllib.request.Request(
        login.token_url,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}", "Accept": "application/json"},
    )
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=TIMEOUT_S) as response:
            said = json.loads(response.read(MAX_RESPONSE_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            raise AuthenticationFailed(f"{login.token_url} gives no token: {_oauth_error(error)}") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ConnectionFailed(f"cannot ask {login.token_url} for a token: {reason}") from None
    except (ValueError, RecursionError):
        said = None
    token = said.get("access_token") if isinstance(said, dict) else None
    return token if isinstance(token, str) else ""


def _oauth_error(error: urllib.error.HTTPError) -> str:
    """The status, and the code of RFC 6749 5.2 if there is one."""
    try:
        said = json.loads(error.read(MAX_RESPONSE_BYTES))
    except (OSError, HTTPException, ValueError, RecursionError):
        said = None
    code = said.get("error") if isinstance(said, dict) else None
    is_code = isinstance(code, str) and code.isascii() and code.replace("_", "").isalnum() and len(code) <= 64
    return f"status {error.code}" + (f", {code}" if is_code else "")
