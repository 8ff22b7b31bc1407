"""Bearer tokens from an OAuth 2 server, and what is said when it gives none (security.md 3.6)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest
from waiting import HANG_S

from eosin.client.errors import AuthenticationFailed, ConnectionFailed
from eosin.client.security.settings import Login
from eosin.client.security.tokens import token_of
from eosin.protocol.sasl.steps import Mechanism

pytestmark = pytest.mark.process


@contextmanager
def server(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[tuple[str, dict[str, list[str]]]]]]:
    """Its URL, and what it was asked: Authorization and form."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append((self.headers["Authorization"], parse_qs(form)))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/token", asked
        finally:
            listening.shutdown()
            thread.join(HANG_S)


def login(url: str, scope: str = "") -> Login:
    return Login(Mechanism.OAUTHBEARER, token_url=url, client_id="m:e", client_secret="geheim", scope=scope)


def test_a_token_is_asked_for_by_client_credentials() -> None:
    with server(200, b'{"access_token": "a.b.c", "expires_in": 60}') as (url, asked):
        assert token_of(login(url, scope="kafka")) == "a.b.c"
        # RFC 6749 2.3.1: m%3Ae:geheim
        assert asked == [
            ("Basic bSUzQWU6Z2VoZWlt", {"grant_type": ["client_credentials"], "scope": ["kafka"]}),
        ]


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (
            401,
            b'{"error": "invalid_client", "error_description": "geheim"}',
            "gives no token: status 401, invalid_client",
        ),
        (500, b"<html>geheim</html>", "gives no token: status 500"),
        (302, b"", "gives no token: status 302"),
        (200, b"geheim", "gives no token that can be sent"),
        (200, b'{"access_token": "a\\nb"}', "gives no token that can be sent"),
        (200, b'{"access_token": 7}', "gives no token that can be sent"),
        (200, b"[" * 10**5, "gives no token that can be sent"),
    ],
)
def test_a_server_without_a_token_is_told_without_its_words(status: int, body: bytes, sentence: str) -> None:
    with server(status, body, Location="http://127.0.0.1:1/elsewhere") as (url, asked):
        with pytest.raises(AuthenticationFailed) as raised:
            token_of(login(url))
        assert sentence in str(raised.value)
        assert "geheim" not in str(raised.value)
        assert len(asked) == 1


def test_a_server_that_is_away_may_come_back() -> None:
    with pytest.raises(ConnectionFailed, match=r"^cannot ask http://127\.0\.0\.1:1/ for a token: .*refused"):
        token_of(login("http://127.0.0.1:1/"))
