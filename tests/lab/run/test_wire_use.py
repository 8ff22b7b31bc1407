"""What an application used of the protocol, from the history of its broker."""

from eosin.lab.history.occurrences import ANSWERED, ASKED, CONNECTED, LinkSeen, Occurrence
from eosin.lab.history.requests import facts_of
from eosin.lab.run.wire_use import ABORTED, EXITED, REBUILT, WENT_ON, WireUse, conduct_of, merged, wire_use_of
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.fetch import FetchRequest

JAVA = LinkSeen(2, "127.0.0.1:5", "copier", "apache-kafka-java 4.4.0")


def asked(number: int, api: str, version: int, detail: str = "", transactional_id: str = "copier-1") -> Occurrence:
    return Occurrence(number, 0, 0, ASKED, number, JAVA, api, version, transactional_id, detail=detail)


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


def test_the_lab_s_own_clients_are_no_part_of_an_application() -> None:
    own = Occurrence(2, 0, 0, ASKED, 2, LinkSeen(9, "127.0.0.1:6", "eosin-lab", "eosin 0.2.0"), "EndTxn", 5)
    use = wire_use_of([asked(1, "EndTxn", 3), own])
    assert (use.clients, use.apis, use.transaction_versions) == (("apache-kafka-java 4.4.0",), {"EndTxn": (3,)}, (1,))


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


def answered(number: int, api: str, detail: str = "", code: str = "NONE") -> list[Occurrence]:
    return [
        asked(number, api, 4, detail),
        Occurrence(number + 1, 0, 0, ANSWERED, number, JAVA, api, code=code),
    ]


def test_an_application_that_makes_more_producers_than_it_was_started_has_rebuilt_them() -> None:
    one, refused = answered(1, "InitProducerId"), answered(3, "InitProducerId", code="CONCURRENT_TRANSACTIONS")
    another = answered(5, "InitProducerId")
    assert conduct_of([*one, *refused], starts=1, exits=0) == WENT_ON
    assert conduct_of([*one, *refused, *another], starts=1, exits=0) == REBUILT
    assert conduct_of([*one, *another], starts=2, exits=0) == WENT_ON
    assert conduct_of([*one, *another], starts=2, exits=1) == EXITED


def test_the_identity_of_an_idempotent_producer_is_none_of_a_transactional_one() -> None:
    idempotent = [asked(3, "InitProducerId", 1, transactional_id=""), *answered(3, "InitProducerId")[1:]]
    assert conduct_of([*answered(1, "InitProducerId"), *idempotent], starts=1, exits=0) == WENT_ON


def test_a_new_epoch_of_the_same_producer_is_an_abort() -> None:
    events = [
        *answered(1, "InitProducerId"),
        *answered(3, "EndTxn", "abort epoch 0"),
        *answered(5, "InitProducerId", "has 1 epoch 0"),
    ]
    assert conduct_of(events, starts=1, exits=0) == ABORTED
