"""What franz-go does when a request of its transaction is refused: its table in docs/clients/franz-go.md, by protocol.

Offsets go through a session, as they always do with it.
"""

from collections.abc import Iterator
from typing import Final

import pytest
from real_clients import franz_go
from real_clients.base import ClientRefused
from refused import ABORT, AGAIN, FINISHED, NOT_SENT, REQUESTS, fails, page, reaction, table
from refusing_broker import RefusingBroker
from scenario import Scenario
from toolchains import skipped_without

from eosin.protocol.errors import ErrorCode

TABLE: Final = table("franz-go")
PROTOCOLS: Final = ("TV2", "TV1")
OF_SESSIONS: Final = ("a new group", "offsets")


@pytest.fixture(scope="module", params=PROTOCOLS)
def refusing(request: pytest.FixtureRequest) -> Iterator[tuple[str, RefusingBroker, Scenario]]:
    with skipped_without():
        franz_go.CLIENT.start()
    with RefusingBroker(eosin_transaction_version=int(request.param[-1])) as broker:
        scenario = Scenario(franz_go.CLIENT, broker.address)
        yield request.param, broker, scenario
        scenario.close()


@pytest.mark.parametrize(("request_", "error"), TABLE)
def test_franz_go_reacts_to_refusals_as_the_page_says(
    refusing: tuple[str, RefusingBroker, Scenario], request_: str, error: str
) -> None:
    protocol, broker, scenario = refusing
    react = reaction_of_a_session if request_ in OF_SESSIONS else reaction
    assert react(broker, scenario, request_, error) == TABLE[request_, error][PROTOCOLS.index(protocol)]


def test_the_page_has_every_request_of_franz_go() -> None:
    assert f"| what is refused | {' | '.join(PROTOCOLS)} |" in page("franz-go")
    assert {request for request, _ in TABLE} == REQUESTS.keys()
    assert {word for does in TABLE.values() for word in does} == {AGAIN, ABORT, FINISHED, NOT_SENT}


def reaction_of_a_session(broker: RefusingBroker, scenario: Scenario, request: str, error: str) -> str:
    """What a session does whose offsets are refused once."""
    source, target = scenario.topic(), scenario.topic()
    feed = scenario.producer()
    feed.send(source, b"read")
    feed.flush()
    session = franz_go.Session(
        scenario.bootstrap, transactional_id=scenario.name("tx"), group=scenario.name("group"), topics=[source]
    )
    scenario.closes(session.close)
    copy(session, target)
    broker.refuse_next(REQUESTS[request][0], ErrorCode[error])
    committed = is_committed(session)
    if not broker.stop_refusing():
        return NOT_SENT
    if committed:
        return AGAIN
    return FINISHED if fails(lambda: copy(session, target)) or not is_committed(session) else ABORT


def copy(session: franz_go.Session, target: str) -> None:
    session.begin()
    assert [each.value for each in session.read(1)] == [b"read"]
    session.send(target, b"written")
    session.flush()


def is_committed(session: franz_go.Session) -> bool:
    """Whether the transaction is; else it is aborted, in the end."""
    try:
        return session.end(commit=True)
    except ClientRefused:
        return False
