"""What the broker makes of a request that tells a listener's address for clients."""

import pytest

from eosin.observe.http.advertising import Advertising, NotAdvertised


def advertising(*held: str) -> tuple[Advertising, list[tuple[str, str, int]]]:
    """One with these listeners, and what it has carried out."""
    done: list[tuple[str, str, int]] = []
    return Advertising(held, lambda name, host, port: done.append((name, host, port))), done


def test_the_only_listener_that_waits_needs_no_name() -> None:
    told, done = advertising("OUTSIDE")
    assert told.tell(b'{"address": "localhost:32789"}').listener == "OUTSIDE"
    assert done == [("OUTSIDE", "localhost", 32789)]


def test_of_several_listeners_each_gets_its_own_address() -> None:
    told, done = advertising("INSIDE", "OUTSIDE")
    told.tell(b'{"listener": "OUTSIDE", "address": "[::1]:1"}')
    told.tell(b'{"listener": "INSIDE", "address": "kafka:9092"}')
    assert done == [("OUTSIDE", "::1", 1), ("INSIDE", "kafka", 9092)]


def test_the_same_address_again_changes_nothing_and_another_one_is_refused() -> None:
    told, done = advertising("OUTSIDE")
    for _ in range(2):
        told.tell(b'{"address": "localhost:1"}')
    assert len(done) == 1
    with pytest.raises(NotAdvertised, match="clients of OUTSIDE are told localhost:1 already") as refused:
        told.tell(b'{"address": "elsewhere:1"}')
    assert (refused.value.status, len(done)) == (409, 1)


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"", 400, '"address": "HOST:PORT"'),
        (b"[]", 400, '"address": "HOST:PORT"'),
        (b'{"adress": "a:1"}', 400, "address"),
        (b'{"address": "a:1", "port": 1}', 400, "port"),
        (b'{"address": "a:1"}', 400, "say which listener it is: INSIDE, OUTSIDE"),
        (b'{"address": "a:1", "listener": "OTHER"}', 404, "those that do: INSIDE, OUTSIDE"),
        (b'{"address": "a", "listener": "INSIDE"}', 400, "HOST:PORT"),
        (b'{"address": "a:0", "listener": "INSIDE"}', 400, "HOST:PORT"),
        (b'{"address": "0.0.0.0:1", "listener": "INSIDE"}', 400, "HOST:PORT"),
        (b'{"address": ":1", "listener": "INSIDE"}', 400, "HOST:PORT"),
        (b'{"address": "http://a:1", "listener": "INSIDE"}', 400, "HOST:PORT"),
        (b'{"address": "a:99999", "listener": "INSIDE"}', 400, "HOST:PORT"),
        (b'{"address": "a:1,OUTSIDE://b:2", "listener": "INSIDE"}', 400, "HOST:PORT"),
    ],
)
def test_what_is_no_address_is_refused_in_a_sentence(body: bytes, status: int, why: str) -> None:
    told, done = advertising("INSIDE", "OUTSIDE")
    with pytest.raises(NotAdvertised) as refused:
        told.tell(body)
    assert refused.value.status == status
    assert why in str(refused.value)
    assert not done
