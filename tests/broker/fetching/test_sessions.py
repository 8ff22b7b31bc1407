"""Fetch sessions (KIP-227): opening, going on, ending, and who loses a slot."""

from typing import Any, cast

import pytest
from manual_clock import ManualClock

from eosin.broker.fetching import sessions
from eosin.broker.fetching.sessions import (
    CHECK_MS,
    IDLE_MS,
    MAX_BYTES,
    MAX_PARTITIONS,
    MIN_EVICTION_MS,
    PARTITION_BYTES,
    SHARES,
    FetchSession,
    FetchSessions,
    FullFetch,
    IncrementalFetch,
    WantedPartition,
)
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from eosin.runtime.chance import SeededChance

TOPIC_ID = b"t" * 16


def request(
    *partitions: int,
    session: int = 0,
    epoch: int = 0,
    offset: int = 0,
    forget: tuple[int, ...] = (),
    topic_id: bytes = ZERO_UUID,
) -> FetchRequest:
    name = "" if topic_id != ZERO_UUID else "orders"
    topics = (FetchTopic(name, topic_id, tuple(FetchPartition(each, fetch_offset=offset) for each in partitions)),)
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        topics=topics if partitions else (),
        forgotten_topics_data=(ForgottenTopic(name, topic_id, forget),) if forget else (),
    )


class Home:
    """A connection."""

    is_gone = False


class Broker:
    def __init__(self, slots: int = 10) -> None:
        self.clock = ManualClock()
        self.sessions = FetchSessions(slots=slots, clock=self.clock, chance=SeededChance(1))

    def open(self, *partitions: int, owner: str | None = None, connection: Home | None = None) -> FetchSession | None:
        fetch = self.sessions.begin(
            request(*partitions), uses_topic_ids=False, owner=owner, connection=cast(Any, connection)
        )
        assert isinstance(fetch, FullFetch)
        return self.sessions.open(fetch)

    def must_open(self, *partitions: int) -> FetchSession:
        session = self.open(*partitions)
        assert session is not None
        return session

    def go_on(
        self, session: FetchSession, *partitions: int, epoch: int = 1, offset: int = 0, forget: tuple[int, ...] = ()
    ) -> FullFetch | IncrementalFetch | ErrorCode:
        return self.sessions.begin(
            request(*partitions, session=session.session_id, epoch=epoch, offset=offset, forget=forget),
            uses_topic_ids=False,
        )


def order(fetch: object) -> list[int]:
    assert isinstance(fetch, IncrementalFetch | FullFetch)
    return [each.partition for each in fetch.wanted]


def test_a_full_fetch_may_open_a_session_that_remembers_its_partitions() -> None:
    broker = Broker()
    session = broker.must_open(0, 1, 2)
    assert session.session_id > 0
    assert order(broker.go_on(session)) == [0, 1, 2]


def test_a_fetch_that_wants_no_session_gets_none_and_closes_the_one_it_names() -> None:
    broker = Broker()
    session = broker.must_open(0)
    last = broker.sessions.begin(request(0, session=session.session_id, epoch=-1), uses_topic_ids=False)
    assert isinstance(last, FullFetch)
    assert broker.sessions.open(last) is None
    assert len(broker.sessions) == 0


def test_a_full_fetch_that_asks_for_a_new_session_gives_up_the_old_one() -> None:
    broker = Broker()
    session = broker.must_open(0)
    fetch = broker.sessions.begin(request(1, session=session.session_id, epoch=0), uses_topic_ids=False)
    assert isinstance(fetch, FullFetch)
    assert broker.sessions.open(fetch) is not None
    assert len(broker.sessions) == 1
    assert broker.go_on(session) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_incremental_fetch_adds_changes_and_forgets_partitions() -> None:
    broker = Broker()
    session = broker.must_open(0, 1)
    fetch = broker.go_on(session, 1, 2, offset=7, forget=(0,))
    assert order(fetch) == [1, 2]
    assert isinstance(fetch, IncrementalFetch)
    assert [each.fetch_offset for each in fetch.wanted] == [7, 7]


def test_an_epoch_is_accepted_once() -> None:
    broker = Broker()
    session = broker.must_open(0)
    assert isinstance(broker.go_on(session, epoch=1), IncrementalFetch)
    assert broker.go_on(session, epoch=1) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert isinstance(broker.go_on(session, epoch=2), IncrementalFetch)


def test_the_epoch_wraps_to_one() -> None:
    broker = Broker()
    session = broker.must_open(0)
    session.epoch = 2**31 - 1
    assert isinstance(broker.go_on(session, epoch=2**31 - 1), IncrementalFetch)
    assert isinstance(broker.go_on(session, epoch=1), IncrementalFetch)


def test_an_unknown_session_is_not_found() -> None:
    fetch = Broker().sessions.begin(request(session=12, epoch=1), uses_topic_ids=False)
    assert fetch == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_keeps_to_names_or_to_ids() -> None:
    broker = Broker()
    session = broker.must_open(0)
    by_id = broker.sessions.begin(request(session=session.session_id, epoch=1), uses_topic_ids=True)
    assert by_id == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_with_ids_knows_its_partitions_by_them() -> None:
    broker = Broker()
    fetch = broker.sessions.begin(request(0, topic_id=TOPIC_ID), uses_topic_ids=True)
    assert isinstance(fetch, FullFetch)
    session = broker.sessions.open(fetch)
    assert session is not None
    again = request(0, 1, session=session.session_id, epoch=1, forget=(0,), topic_id=TOPIC_ID)
    assert order(broker.sessions.begin(again, uses_topic_ids=True)) == [1]


def test_a_session_without_partitions_ends() -> None:
    broker = Broker()
    session = broker.must_open(0)
    fetch = broker.go_on(session, forget=(0,))
    assert isinstance(fetch, FullFetch)
    assert not fetch.wanted
    assert broker.sessions.open(fetch) is None
    assert len(broker.sessions) == 0


def test_a_partition_that_returned_records_is_read_last_the_next_time() -> None:
    broker = Broker()
    session = broker.must_open(0, 1, 2)
    first, second, _ = session.partitions.values()
    session.sent(first, high_watermark=5, log_start_offset=0, has_records=True)
    session.sent(second, high_watermark=5, log_start_offset=0, has_records=False)
    assert order(broker.go_on(session)) == [1, 2, 0]


def test_a_follower_in_a_new_leader_epoch_is_told_the_high_watermark_again() -> None:
    """What a follower heard in the old epoch it may have dropped, though the leader is the same."""

    def of_epoch(epoch: int) -> FetchPartition:
        return FetchPartition(0, fetch_offset=2, current_leader_epoch=epoch)

    wanted = WantedPartition(FetchTopic("orders"), of_epoch(4), key=0)
    wanted.last_sent_high_watermark = 2
    wanted.update(of_epoch(4))
    assert wanted.last_sent_high_watermark == 2
    wanted.update(of_epoch(5))
    assert wanted.last_sent_high_watermark == -1


def test_a_partition_forgotten_while_its_fetch_waited_does_not_come_back() -> None:
    broker = Broker()
    session = broker.must_open(0, 1)
    waiting = broker.go_on(session, epoch=1)
    assert isinstance(waiting, IncrementalFetch)
    broker.go_on(session, epoch=2, forget=(0,))
    session.sent(waiting.wanted[0], high_watermark=5, log_start_offset=0, has_records=True)
    assert order(broker.go_on(session, epoch=3)) == [1]


def test_without_a_slot_there_is_no_session() -> None:
    broker = Broker(slots=1)
    broker.must_open(0)
    assert broker.open(0, 1) is None
    assert Broker(slots=0).open(0) is None


def test_an_idle_session_loses_its_slot() -> None:
    broker = Broker(slots=1)
    idle = broker.must_open(0, 1, 2)
    broker.clock.advance(MIN_EVICTION_MS + 1)
    broker.must_open(0)
    assert broker.go_on(idle) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_wall_clock_that_jumps_ends_no_session_and_keeps_none() -> None:
    broker = Broker(slots=1)
    session = broker.must_open(0, 1)
    broker.clock.ahead_ms = 10 * IDLE_MS
    broker.clock.advance(CHECK_MS)
    assert broker.open(0, 1, 2) is None, "the slot is taken"
    assert isinstance(broker.go_on(session, epoch=1), IncrementalFetch)
    broker.clock.ahead_ms = -10 * IDLE_MS
    broker.clock.advance(IDLE_MS + 2 * CHECK_MS)
    assert len(broker.sessions) == 0


def test_a_used_session_keeps_its_slot_until_it_is_old_and_a_larger_one_comes() -> None:
    broker = Broker(slots=1)
    used = broker.must_open(0, 1)
    broker.clock.advance(MIN_EVICTION_MS - 1000)
    broker.go_on(used, epoch=1)
    assert broker.open(0, 1, 2) is None
    broker.clock.advance(2000)
    broker.go_on(used, epoch=2)
    assert broker.open(0, 1) is None
    broker.must_open(0, 1, 2)
    assert broker.go_on(used, epoch=3) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_least_recently_used_session_goes_first() -> None:
    broker = Broker(slots=2)
    older, newer = broker.must_open(0), broker.must_open(0)
    broker.clock.advance(MIN_EVICTION_MS)
    broker.go_on(older, epoch=1)
    broker.clock.advance(1)
    broker.must_open(0)
    assert isinstance(broker.go_on(older, epoch=2), IncrementalFetch)
    assert broker.go_on(newer) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_fetch_of_too_many_partitions_has_no_session() -> None:
    broker = Broker()
    assert broker.open(*range(MAX_PARTITIONS + 1)) is None
    broker.must_open(*range(MAX_PARTITIONS))


def test_a_session_that_grows_too_large_ends() -> None:
    broker = Broker()
    session = broker.must_open(0)
    grown = broker.go_on(session, *range(MAX_PARTITIONS + 1))
    assert grown == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(broker.sessions), broker.sessions.held_bytes) == (0, 0)


def test_sessions_never_hold_more_than_their_bytes_and_a_user_never_more_than_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Filled by one user, and then by many."""
    monkeypatch.setattr(sessions, "MAX_BYTES", 4000 * PARTITION_BYTES)
    broker = Broker(slots=100_000)
    for _ in range(100):
        broker.open(*range(100), owner="mallory")
    assert broker.sessions.held_bytes <= sessions.MAX_BYTES // SHARES
    alice = broker.open(*range(100), owner="alice")
    assert alice is not None, "there is room for others"
    for each in range(100):
        broker.open(*range(100), owner=f"user-{each}")
        assert broker.sessions.held_bytes <= sessions.MAX_BYTES
    assert broker.sessions.held_bytes > sessions.MAX_BYTES // 2
    assert MAX_BYTES <= 256 << 20


def test_who_holds_most_gives_way_to_who_holds_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_BYTES", 300 * PARTITION_BYTES)
    monkeypatch.setattr(sessions, "SHARES", 1)
    broker = Broker()
    first, _ = (broker.open(*range(100), owner="mallory") for _ in range(2))
    bob = broker.open(*range(100), owner="bob")
    assert broker.open(*range(50), owner="alice") is not None
    assert first is not None
    assert bob is not None
    assert isinstance(broker.go_on(first, epoch=1), ErrorCode), "the oldest one of whoever holds most"
    assert len(broker.sessions) == 3
    assert broker.open(*range(200), owner="bob") is None, "nobody gives way to who would hold most"


def test_followers_are_not_limited_and_take_nothing_from_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_BYTES", 200 * PARTITION_BYTES)
    broker = Broker()
    fetch = broker.sessions.begin(request(*range(MAX_PARTITIONS + 1)), uses_topic_ids=False, owner="broker-2")
    assert isinstance(fetch, FullFetch)
    fetch.is_follower = True
    follower = broker.sessions.open(fetch)
    assert follower is not None
    assert broker.open(*range(100), owner="alice") is not None
    grown = broker.sessions.begin(
        request(MAX_PARTITIONS + 1, session=follower.session_id, epoch=1), uses_topic_ids=False, owner="broker-2"
    )
    assert isinstance(grown, IncrementalFetch), "nobody has ended it"


def test_a_session_that_is_not_used_is_forgotten() -> None:
    broker = Broker()
    used, _ = broker.must_open(0), broker.must_open(0)
    broker.clock.advance(IDLE_MS - CHECK_MS)
    broker.go_on(used)
    broker.clock.advance(2 * CHECK_MS)
    assert len(broker.sessions) == 1
    broker.clock.advance(IDLE_MS)
    assert (len(broker.sessions), broker.sessions.held_bytes) == (0, 0)
    assert not broker.clock.pending, "where there is nothing, nobody looks"


def test_a_session_goes_with_its_connection() -> None:
    broker, left, stays = Broker(), Home(), Home()
    broker.open(0, 1, connection=left)
    broker.open(0, connection=stays)
    left.is_gone = True
    broker.clock.advance(CHECK_MS)
    assert len(broker.sessions) == 1


def test_a_session_that_is_continued_on_another_connection_stays() -> None:
    broker, left, again = Broker(), Home(), Home()
    session = broker.open(0, connection=left)
    assert session is not None
    left.is_gone = True
    broker.sessions.begin(
        request(session=session.session_id, epoch=1), uses_topic_ids=False, connection=cast(Any, again)
    )
    broker.clock.advance(CHECK_MS)
    assert len(broker.sessions) == 1


def test_bytes_are_given_back_with_what_a_session_forgets() -> None:
    broker = Broker()
    session = broker.must_open(0, 1, 2)
    before = broker.sessions.held_bytes
    broker.go_on(session, 3, forget=(0, 1), epoch=1)
    assert broker.sessions.held_bytes == before * 2 // 3
    broker.go_on(session, forget=(2, 3), epoch=2)
    assert broker.sessions.held_bytes == 0
