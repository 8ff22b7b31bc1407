"""Cookies of the console's pages (console.md 6)."""

import pytest
from manual_clock import ManualClock

from eosin.observe.console.sessions import Sessions


@pytest.mark.parametrize("is_secure", [True, False])
def test_a_cookie_of_a_page_over_tls_goes_over_nothing_else(is_secure: bool) -> None:
    sessions = Sessions(ManualClock(), port="8080", is_secure=is_secure)
    cookie = sessions.begin()
    assert ("Secure" in cookie.split("; ")) is is_secure
    assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    assert sessions.knows(cookie.partition(";")[0])
