"""What an application used of the protocol, from the history of its broker."""

from eosin.lab.history.occurrences import ANSWERED, ASKED, CONNECTED, LinkSeen, Occurrence
from eosin.lab.history.requests import facts_of
from eosin.lab.run.wire_use import WireUse, merged, wire_use_of
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.fetch import FetchRequest

JAVA = LinkSeen(2, "127.0.0.1:5", "copier", "apache-kafka-java 4.4.0")


def asked(number: int, api: str, version: int, detail: str = "") -> Occurrence:
    return Occurrence(number, 0, 0, ASKED, number, JAVA, api, version, detail=detail)


def test_requests_are_summed_up_by_api_with_their_versions() -> None:
    events = [
        Occurrence(1, 0, 0, CONNECTED, link=LinkSeen(1, "127.0.0.1:4")),
        asked(2, "Produce", 12),
        Occurrence(3, 0, 0, ANSWERED, 2, JAVA, "Produce"),
        asked(4, "EndTxn", 5),
        asked(5, "EndTxn", 4),
        asked(6, "Fetch", 17, "read_committed in a session"),
    ]
    use = wire_use_of(events)
    assert use.clients == ("apache-kafka-java 4.4.0",)
    assert use.apis == {"EndTxn": (4, 5), "Fetch": (17,), "Produce": (12,)}
    assert str(use) == "transaction version 1 and 2, read_committed, fetch sessions"


def test_several_runs_are_one() -> None:
    first = WireUse(("a 1",), {"Fetch": (4,)}, (1,), ("read_committed",))
    second = WireUse(("a 1", "b 2"), {"Fetch": (4, 11), "EndTxn": (5,)}, (2,), ("read_uncommitted",), True)
    both = WireUse(
        ("a 1", "b 2"), {"EndTxn": (5,), "Fetch": (4, 11)}, (1, 2), ("read_committed", "read_uncommitted"), True
    )
    assert merged([first, second]) == both


def test_nothing_is_said_of_what_there_was_not() -> None:
    assert str(wire_use_of([])) == "no transactions"


def test_a_fetch_says_what_it_may_read_and_if_it_is_one_of_a_session() -> None:
    committed = FetchRequest(isolation_level=1, session_epoch=-1)
    assert facts_of(ApiKey.FETCH, committed)[3] == "read_committed"
    in_session = FetchRequest(isolation_level=0, session_epoch=3)
    assert facts_of(ApiKey.FETCH, in_session)[3] == "read_uncommitted in a session"
