"""Listeners whose clients wait until their address is told: what the settings mean, and what is refused."""

import pytest

from eosin.settings.broker import BrokerConfig
from eosin.settings.settings import SettingError
from eosin.settings.sources import load_config

HTTP = "eosin.http.listener=9644"


def loaded(later: str, *more: str, listeners: str = "INSIDE://127.0.0.1:29092,OUTSIDE://0.0.0.0:9092") -> BrokerConfig:
    return load_config(assignments=[f"listeners={listeners}", f"eosin.advertise.later={later}", *more]).config


def test_a_held_listener_may_bind_every_address_and_name_none_for_clients() -> None:
    assert loaded("OUTSIDE", HTTP).held_listeners == {"OUTSIDE"}


def test_a_star_holds_every_listener() -> None:
    assert loaded("*", HTTP).held_listeners == {"INSIDE", "OUTSIDE"}


def test_nothing_is_held_where_nobody_asks_for_it() -> None:
    assert BrokerConfig().held_listeners == frozenset()


def test_an_http_listener_for_other_machines_needs_no_token_to_be_told_an_address() -> None:
    assert loaded("OUTSIDE", "eosin.http.listener=0.0.0.0:9644").held_listeners == {"OUTSIDE"}


@pytest.mark.parametrize(
    ("later", "more", "complaint"),
    [
        ("OTHER", [HTTP], "eosin.advertise.later names OTHER, but no listener has that name; \\* means all"),
        ("OUTSIDE", [], "needs eosin.http.listener, or --http"),
        ("INSIDE", [HTTP], "listener OUTSIDE://0.0.0.0:9092 binds every address"),
        (
            "OUTSIDE",
            [HTTP, "process.roles=broker", "controller.quorum.bootstrap.servers=c:1", "eosin.cluster.id=x"],
            "is for a broker alone",
        ),
    ],
)
def test_a_wait_that_nobody_could_end_is_refused(later: str, more: list[str], complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        loaded(later, *more)
