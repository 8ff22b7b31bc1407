"""What a follower names in its requests, in a session and without one (KIP-227, storage.md 16)."""

from eosin.cluster.replication.fetch_session import FollowerFetchLimits, FollowerFetchSession, PartitionKey
from eosin.cluster.replication.rules.followed_partition import FetchPosition
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.fetch import FetchRequest, FetchResponse

ORDERS, STOCK = b"o" * 16, b"s" * 16
FIRST, SECOND, THIRD = PartitionKey(ORDERS, 0), PartitionKey(ORDERS, 1), PartitionKey(STOCK, 0)
LIMITS = FollowerFetchLimits(replica_id=2, max_wait_ms=500, min_bytes=1, max_bytes=10_000, partition_max_bytes=1000)
SESSION = 77


def at(offset: int, *, epoch: int = 4) -> FetchPosition:
    return FetchPosition(epoch, offset, 3, 0)


def named(request: FetchRequest) -> dict[PartitionKey, int]:
    return {
        PartitionKey(topic.topic_id, each.partition): each.fetch_offset
        for topic in request.topics
        for each in topic.partitions
    }


def forgotten(request: FetchRequest) -> set[PartitionKey]:
    return {PartitionKey(each.topic_id, index) for each in request.forgotten_topics_data for index in each.partitions}


def opened() -> FollowerFetchSession:
    """A session at epoch 1 that knows the three partitions at offset 10."""
    session = FollowerFetchSession(LIMITS)
    for key in (FIRST, SECOND, THIRD):
        session.want(key, at(10))
    session.request(9)
    session.handle_response(FetchResponse(session_id=SESSION))
    return session


def test_the_first_request_names_everything_and_asks_for_a_session() -> None:
    session = FollowerFetchSession(LIMITS)
    session.want(FIRST, at(10))
    session.want(THIRD, at(20))
    request = session.request(9)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert named(request) == {FIRST: 10, THIRD: 20}
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 9)


def test_a_session_names_only_what_has_changed() -> None:
    session = opened()
    session.want(SECOND, at(15))
    session.want(THIRD, at(10))
    request = session.request(9)
    assert (request.session_id, request.session_epoch) == (SESSION, 1)
    assert named(request) == {SECOND: 15}
    assert forgotten(request) == set()


def test_a_new_leader_epoch_begins_a_session_in_which_nothing_counts_as_told() -> None:
    """A leader of Apache Kafka would not say again that nothing has changed since the epoch before."""
    session = opened()
    session.want(SECOND, at(10, epoch=5))
    request = session.request(9)
    assert request.session_epoch == 0
    assert named(request) == {FIRST: 10, SECOND: 10, THIRD: 10}


def test_a_partition_that_must_not_be_sent_is_forgotten_and_named_again_later() -> None:
    session = opened()
    session.forget(SECOND)
    request = session.request(9)
    assert named(request) == {}
    assert forgotten(request) == {SECOND}
    session.handle_response(FetchResponse(session_id=SESSION))
    session.want(SECOND, at(10))
    request = session.request(9)
    assert named(request) == {SECOND: 10}
    assert forgotten(request) == set()


def test_a_partition_that_comes_back_before_the_next_request_is_not_forgotten() -> None:
    session = opened()
    session.forget(SECOND)
    session.want(SECOND, at(12))
    request = session.request(9)
    assert named(request) == {SECOND: 12}
    assert forgotten(request) == set()


def test_an_answer_is_held_against_the_position_that_was_asked_last() -> None:
    session = opened()
    assert session.requested_position(FIRST) == at(10)
    session.want(FIRST, at(30))
    assert session.requested_position(FIRST) == at(10)
    session.request(9)
    assert session.requested_position(FIRST) == at(30)


def test_a_partition_of_a_full_request_that_is_gone_has_no_position() -> None:
    session = opened()
    session.forget(FIRST)
    session.lost()
    session.request(9)
    assert session.requested_position(FIRST) is None


def test_a_leader_that_forgot_the_session_is_sent_a_full_request() -> None:
    for error in (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ):
        session = opened()
        session.want(FIRST, at(11))
        session.request(9)
        assert session.handle_response(FetchResponse(error_code=error)) is error
        request = session.request(9)
        assert (request.session_id, request.session_epoch) == (SESSION, 0)
        assert named(request) == {FIRST: 11, SECOND: 10, THIRD: 10}


def test_a_lost_answer_ends_the_session() -> None:
    session = opened()
    session.want(FIRST, at(11))
    session.request(9)
    session.lost()
    assert named(session.request(9)) == {FIRST: 11, SECOND: 10, THIRD: 10}


def test_a_leader_without_room_for_sessions_gets_full_requests() -> None:
    session = opened()
    session.request(9)
    session.handle_response(FetchResponse(session_id=0))
    request = session.request(9)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert named(request) == {FIRST: 10, SECOND: 10, THIRD: 10}


def test_the_epoch_goes_up_by_one_with_each_answer() -> None:
    session = opened()
    epochs = []
    for _ in range(3):
        epochs.append(session.request(9).session_epoch)
        session.handle_response(FetchResponse(session_id=SESSION))
    assert epochs == [1, 2, 3]


def test_a_partition_with_data_goes_to_the_end_of_a_full_request() -> None:
    session = opened()
    session.got_data(FIRST)
    session.lost()
    request = session.request(9)
    order = [(topic.topic_id, each.partition) for topic in request.topics for each in topic.partitions]
    assert order == [SECOND, THIRD, FIRST]
