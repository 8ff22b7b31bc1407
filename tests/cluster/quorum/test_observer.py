"""What a broker asks the quorum, and what it makes of the answers (cluster.md 3.1 to 3.7)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from quorum_log import batch_of, control_batch_of, fetched, piece, snapshot_of

from eosin.client.addresses import Address
from eosin.cluster.quorum.leader import ActiveController
from eosin.cluster.quorum.observer import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    Apply,
    Disconnect,
    Effect,
    Effects,
    Follow,
    Observer,
    ObserverConfig,
    Pause,
    Restore,
    SendRequest,
)
from eosin.cluster.quorum.rules.errors import QuorumLost, QuorumUnreadable
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import fetch_snapshot
from eosin.protocol.schemas.fetch import FetchRequest, FetchResponse, NodeEndpoint, ReplicaState, SnapshotId
from eosin.protocol.schemas.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from eosin.protocol.schemas.records import quorum
from eosin.protocol.schemas.records.metadata import FeatureLevelRecord, NoOpRecord
from eosin.protocol.types import Message

pytestmark = pytest.mark.virtual

DIRECTORY = bytes(range(16))
A, B, C = Address("a", 1), Address("b", 2), Address("c", 3)
AT_A, AT_B = NodeEndpoint(100, "a", 1), NodeEndpoint(101, "b", 2)
CONFIG = ObserverConfig(
    cluster_id="cluster", node_id=7, directory_id=DIRECTORY, listener="CONTROLLER", bootstrap=(A, B)
)
LEADER = (100, 5)
"""Controller 100 leads in epoch 5; it is at A."""


class Asked:
    """An observer, and the effects that it was told to return last."""

    def __init__(self, config: ObserverConfig = CONFIG) -> None:
        self.observer = Observer(config)
        self.now_ms = 0
        self.effects: Effects = self.observer.start()

    def answer(self, response: FetchResponse | FetchSnapshotResponse) -> "Asked":
        assert isinstance(self.effects[-1], SendRequest)
        self.effects = self.observer.handle_response(response, self.now_ms)
        return self

    def fail(self) -> "Asked":
        self.effects = self.observer.failed()
        return self

    def resume(self) -> "Asked":
        assert isinstance(self.effects[-1], Pause)
        self.effects = self.observer.resumed()
        return self

    @property
    def ask(self) -> SendRequest:
        assert isinstance(self.effects[-1], SendRequest), self.effects
        return self.effects[-1]

    @property
    def fetch(self) -> FetchRequest:
        assert isinstance(self.ask.message, FetchRequest)
        return self.ask.message

    @property
    def offset_and_epochs(self) -> tuple[int, int, int]:
        """Of the Fetch that is asked: offset, epoch of the last batch, epoch of the leader."""
        partition = self.fetch.topics[0].partitions[0]
        return partition.fetch_offset, partition.last_fetched_epoch, partition.current_leader_epoch

    def applied(self) -> list[int]:
        """The first offsets of the batches that are handed out."""
        return [batch.base_offset for each in self.effects if isinstance(each, Apply) for batch in each.batches]


def led(config: ObserverConfig = CONFIG) -> Asked:
    """An observer that has just learned who leads, and has nothing yet."""
    return Asked(config).answer(fetched(leader=LEADER, error=ErrorCode.FENCED_LEADER_EPOCH, endpoints=[AT_A]))


def noops(*base_offsets: int, epoch: int = 5, each: int = 1) -> bytes:
    return b"".join(batch_of([NoOpRecord()] * each, base_offset=offset, epoch=epoch) for offset in base_offsets)


def kinds(effects: Effects) -> list[type[Effect]]:
    return [type(each) for each in effects]


# The first request, and who leads


def test_the_first_fetch_asks_any_bootstrap_server_from_offset_and_epoch_zero() -> None:
    """cluster.md 3.1"""
    asked = Asked()
    assert asked.ask.address == A
    assert asked.ask.key is ApiKey.FETCH
    request = asked.fetch
    assert request.cluster_id == "cluster"
    assert request.replica_state == ReplicaState(7, -1)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 0, 1048576)
    assert (request.session_id, request.session_epoch) == (0, -1)
    [topic] = request.topics
    assert topic.topic_id == METADATA_TOPIC_ID
    assert asked.offset_and_epochs == (0, 0, 0)
    [partition] = topic.partitions
    assert (partition.log_start_offset, partition.high_watermark) == (-1, -1)
    assert partition.replica_directory_id == DIRECTORY


def test_voters_that_are_configured_are_asked_before_bootstrap_servers() -> None:
    """cluster.md 1.2"""
    config = replace(CONFIG, voters={100: C})
    asked = Asked(config)
    assert asked.ask.address == C
    assert asked.fail().resume().ask.address == A


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_leader_that_an_answer_names_is_asked_at_once_in_its_epoch(error: ErrorCode) -> None:
    """cluster.md 3.2.2"""
    asked = Asked().answer(fetched(leader=(101, 5), error=error, endpoints=[AT_A, AT_B]))
    assert asked.effects[0] == Follow(ActiveController(101, 5, "b", 2))
    assert asked.ask.address == B
    assert asked.offset_and_epochs == (0, 0, 5)


def test_the_address_of_a_leader_without_an_endpoint_is_that_of_the_voter() -> None:
    """cluster.md 2.1"""
    config = replace(CONFIG, voters={100: C, 101: B})
    asked = Asked(config).answer(fetched(leader=(101, 5), error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert asked.effects[0] == Follow(ActiveController(101, 5, "b", 2))


def test_a_voter_that_knows_no_leader_is_not_asked_again_before_the_others() -> None:
    asked = Asked().answer(fetched(leader=(-1, 5), error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert kinds(asked.effects) == [Disconnect, Pause]
    assert asked.effects[-1] == Pause(20)
    asked.resume()
    assert asked.ask.address == B
    assert asked.offset_and_epochs == (0, 0, 5)


def test_an_unknown_epoch_means_that_the_voter_is_behind_so_another_one_is_asked() -> None:
    """cluster.md 3.2.2"""
    asked = Asked().answer(fetched(leader=(-1, 0), error=ErrorCode.UNKNOWN_LEADER_EPOCH))
    assert asked.resume().ask.address == B


def test_an_answer_of_an_older_epoch_is_ignored_as_a_whole() -> None:
    """cluster.md 3.2.2: a stale controller"""
    asked = led().answer(fetched(leader=(101, 4), records=noops(0, epoch=4), high_watermark=1, endpoints=[AT_B]))
    assert asked.applied() == []
    assert asked.observer.epoch == 5
    assert asked.observer.end_offset == 0
    assert asked.resume().ask.address == B


def test_two_leaders_of_one_epoch_are_impossible_and_the_connection_is_dropped() -> None:
    """cluster.md 3.2.2"""
    asked = led().answer(fetched(leader=(101, 5), endpoints=[AT_B]))
    assert isinstance(asked.effects[0], Disconnect)
    assert "100" in asked.effects[0].reason
    assert "101" in asked.effects[0].reason


def test_a_newer_epoch_is_adopted_and_its_leader_is_asked() -> None:
    asked = led().answer(fetched(leader=(101, 6), error=ErrorCode.FENCED_LEADER_EPOCH, endpoints=[AT_B]))
    assert asked.effects[0] == Follow(ActiveController(101, 6, "b", 2))
    assert asked.ask.address == B
    assert asked.offset_and_epochs[2] == 6


def test_a_leader_that_is_silent_is_unknown_until_somebody_names_it_again() -> None:
    """cluster.md 3.2"""
    asked = led().fail()
    assert Follow(None) in asked.effects
    assert asked.effects[-1] == Pause(20)
    assert asked.resume().ask.address == B
    assert asked.offset_and_epochs[2] == 5
    asked.fail().resume().answer(fetched(leader=LEADER, records=noops(0), high_watermark=1))
    assert Follow(ActiveController(100, 5, "a", 1)) in asked.effects
    assert asked.applied() == [0]


def test_the_content_of_an_answer_that_only_names_the_leader_again_counts() -> None:
    """cluster.md 3.2.2: equal, and we knew none"""
    asked = led().fail().resume().fail().resume()
    asked.answer(fetched(leader=LEADER, records=noops(0), high_watermark=0, endpoints=[AT_A]))
    assert asked.observer.end_offset == 1


@pytest.mark.parametrize(
    "answer",
    [
        fetched(top_level=ErrorCode.BROKER_NOT_AVAILABLE),
        fetched(top_level=ErrorCode.INVALID_REQUEST),
        FetchResponse(),
        fetched(leader=LEADER, error=ErrorCode.UNKNOWN_SERVER_ERROR),
        fetched(leader=LEADER, records=noops(0)[:-1]),
        fetched(leader=LEADER, records=noops(0)[:-1] + b"\xff"),
        fetched(leader=LEADER, snapshot=(0, 0)),
    ],
)
def test_after_an_answer_of_no_use_another_controller_is_asked(answer: FetchResponse) -> None:
    """cluster.md 3.2.1"""
    asked = led().answer(answer)
    assert kinds(asked.effects) == [Disconnect, Follow, Pause]
    assert asked.resume().ask.address == B


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "another cluster than cluster"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "does not authorize this broker"),
    ],
)
def test_a_controller_of_another_cluster_or_one_that_forbids_it_ends_the_following(
    error: ErrorCode, sentence: str
) -> None:
    """cluster.md 3.2.1"""
    with pytest.raises(QuorumLost, match=sentence):
        Asked().answer(fetched(top_level=error))


# What is committed


def test_batches_are_handed_out_below_the_high_watermark_only_and_once() -> None:
    """cluster.md 3.6.1"""
    asked = led().answer(fetched(leader=LEADER, records=noops(0, 2, 4, each=2), high_watermark=4))
    assert asked.applied() == [0, 2]
    assert asked.offset_and_epochs == (6, 5, 5)
    assert asked.fetch.topics[0].partitions[0].high_watermark == 4
    assert asked.answer(fetched(leader=LEADER, high_watermark=5)).applied() == []
    assert asked.answer(fetched(leader=LEADER, high_watermark=6)).applied() == [4]
    assert asked.answer(fetched(leader=LEADER, high_watermark=6)).applied() == []


def test_the_high_watermark_never_goes_back() -> None:
    """cluster.md 3.2.3: it may be -1 after an election"""
    asked = led().answer(fetched(leader=LEADER, records=noops(0, 1), high_watermark=2))
    for told in (-1, 0, 1):
        assert asked.answer(fetched(leader=LEADER, high_watermark=told)).observer.high_watermark == 2


def test_a_batch_that_is_cut_off_at_the_end_comes_again() -> None:
    """cluster.md 3.2"""
    asked = led().answer(fetched(leader=LEADER, records=noops(0, 1)[:-3], high_watermark=2))
    assert asked.applied() == [0]
    assert asked.offset_and_epochs == (1, 5, 5)


def test_a_gap_in_the_log_cannot_be_read_over() -> None:
    """cluster.md 3.9: a missed record shows nowhere else"""
    with pytest.raises(QuorumUnreadable, match="goes on with offset 2 where 1 was next"):
        led().answer(fetched(leader=LEADER, records=noops(0, 2), high_watermark=3))


@pytest.mark.parametrize("epoch", [4, 6])
def test_a_batch_of_an_epoch_that_cannot_be_is_refused(epoch: int) -> None:
    records = noops(0) + noops(1, epoch=epoch)
    with pytest.raises(QuorumUnreadable, match=f"the batch at offset 1 of the metadata log is of epoch {epoch}"):
        led().answer(fetched(leader=LEADER, records=records, high_watermark=2))


def test_it_is_caught_up_when_it_has_what_a_leader_has_said_to_be_committed() -> None:
    """cluster.md 3.6.3"""
    asked = led()
    assert not asked.observer.is_caught_up
    asked.answer(fetched(leader=LEADER, records=noops(0), high_watermark=2))
    assert not asked.observer.is_caught_up
    asked.answer(fetched(leader=LEADER, records=noops(1), high_watermark=2))
    assert asked.observer.is_caught_up


# Divergence (cluster.md 3.3)


def test_records_that_the_new_leader_lacks_are_dropped_and_fetched_again() -> None:
    asked = led().answer(fetched(leader=LEADER, records=noops(0, 1, 2), high_watermark=1))
    asked.answer(fetched(leader=(101, 7), error=ErrorCode.FENCED_LEADER_EPOCH, endpoints=[AT_B]))
    assert asked.offset_and_epochs == (3, 5, 7)
    asked.answer(fetched(leader=(101, 7), diverging=(5, 2), high_watermark=-1))
    assert asked.offset_and_epochs == (2, 5, 7)
    asked.answer(fetched(leader=(101, 7), records=noops(2, epoch=7), high_watermark=3))
    assert asked.applied() == [1, 2]
    assert asked.offset_and_epochs == (3, 7, 7)


def test_an_epoch_that_the_leader_does_not_know_is_dropped_whole() -> None:
    asked = led().answer(fetched(leader=LEADER, records=noops(0, epoch=3) + noops(1, 2, epoch=4), high_watermark=1))
    asked.answer(fetched(leader=(101, 7), error=ErrorCode.FENCED_LEADER_EPOCH, endpoints=[AT_B]))
    asked.answer(fetched(leader=(101, 7), diverging=(3, 9)))
    assert asked.offset_and_epochs == (1, 3, 7)


@pytest.mark.parametrize("diverging", [(5, 1), (4, 2), (0, 0)])
def test_a_divergence_below_what_was_committed_means_that_the_quorum_has_lost_it(diverging: tuple[int, int]) -> None:
    asked = led().answer(fetched(leader=LEADER, records=noops(0, 1, 2), high_watermark=2))
    with pytest.raises(QuorumLost, match="lost committed metadata"):
        asked.answer(fetched(leader=LEADER, diverging=diverging))


def test_a_divergence_that_takes_nothing_away_does_not_spin() -> None:
    asked = led().answer(fetched(leader=LEADER, records=noops(0, 1), high_watermark=1))
    assert isinstance(asked.answer(fetched(leader=LEADER, diverging=(5, 2))).effects[-1], Pause)


# Snapshots (cluster.md 3.5)

RECORDS = [FeatureLevelRecord("metadata.version", 30), NoOpRecord()]
SNAPSHOT = snapshot_of(RECORDS)
ID = (40, 4)


def downloading(config: ObserverConfig = CONFIG) -> Asked:
    return led(config).answer(fetched(leader=LEADER, snapshot=ID, high_watermark=50))


def test_a_snapshot_is_read_piece_by_piece_from_the_leader() -> None:
    asked = downloading()
    assert (asked.ask.address, asked.ask.key) == (A, ApiKey.FETCH_SNAPSHOT)
    for at in (0, 10, 100):
        request = asked.ask.message
        assert isinstance(request, FetchSnapshotRequest)
        assert (request.cluster_id, request.replica_id, request.max_bytes) == ("cluster", 7, 1048576)
        [topic] = request.topics
        [partition] = topic.partitions
        assert (topic.name, partition.partition, partition.current_leader_epoch) == (METADATA_TOPIC, 0, 5)
        assert (partition.snapshot_id, partition.position) == (SnapshotId(*ID), at)
        assert partition.replica_directory_id == DIRECTORY
        end = {0: 10, 10: 100, 100: len(SNAPSHOT)}[at]
        asked.answer(piece(SNAPSHOT[at:end], snapshot=ID, position=at, size=len(SNAPSHOT), leader=LEADER))
    [restore] = [each for each in asked.effects if isinstance(each, Restore)]
    assert restore.snapshot_id == SnapshotId(*ID)
    assert b"".join(batch.data for batch in restore.batches) == SNAPSHOT
    assert asked.offset_and_epochs == (40, 4, 5)
    assert asked.observer.high_watermark == 40
    asked.answer(fetched(leader=LEADER, records=noops(40), high_watermark=41))
    assert asked.applied() == [40]


def test_the_end_of_a_snapshot_does_not_say_what_was_committed_since() -> None:
    """cluster.md 3.6.3"""
    asked = downloading().answer(piece(SNAPSHOT, snapshot=ID, position=0, size=len(SNAPSHOT), leader=LEADER))
    assert not asked.observer.is_caught_up
    asked.answer(fetched(leader=LEADER, high_watermark=40))
    assert asked.observer.is_caught_up


@pytest.mark.parametrize("error", [ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE])
def test_a_snapshot_that_is_gone_is_started_over_with_a_fetch(error: ErrorCode) -> None:
    asked = downloading().answer(piece(b"", snapshot=ID, position=0, size=0, leader=LEADER, error=error))
    assert asked.effects == (Pause(20),)
    assert asked.resume().ask.key is ApiKey.FETCH
    assert asked.ask.address == A


def test_a_new_leader_ends_the_download() -> None:
    new = piece(b"", snapshot=ID, position=0, size=0, leader=(101, 6), error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    asked = downloading().answer(FetchSnapshotResponse(topics=new.topics, node_endpoints=(endpoint(101, B),)))
    assert asked.effects[0] == Follow(ActiveController(101, 6, "b", 2))
    assert (asked.ask.address, asked.ask.key) == (B, ApiKey.FETCH)


@pytest.mark.parametrize(
    "answer",
    [
        piece(SNAPSHOT, snapshot=(41, 4), position=0, size=len(SNAPSHOT), leader=LEADER),
        piece(SNAPSHOT, snapshot=ID, position=1, size=len(SNAPSHOT), leader=LEADER),
        piece(b"", snapshot=ID, position=0, size=len(SNAPSHOT), leader=LEADER),
        piece(SNAPSHOT, snapshot=ID, position=0, size=1, leader=LEADER),
        piece(SNAPSHOT[:-1], snapshot=ID, position=0, size=len(SNAPSHOT) - 1, leader=LEADER),
        piece(noops(0), snapshot=ID, position=0, size=len(noops(0)), leader=LEADER),
        FetchSnapshotResponse(),
        FetchSnapshotResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE),
    ],
)
def test_a_snapshot_that_is_not_whole_is_started_over(answer: FetchSnapshotResponse) -> None:
    """cluster.md 3.4: one without a footer is not whole"""
    asked = downloading().answer(answer)
    assert not [each for each in asked.effects if isinstance(each, Restore)]
    assert asked.resume().ask.key is ApiKey.FETCH


# Voters (cluster.md 3.4)


def voters(*ids_and_addresses: tuple[int, Address], listener: str = "CONTROLLER") -> Message:
    return quorum.VotersRecord(
        tuple(
            quorum.QuorumVoter(voter_id, bytes(16), (quorum.VoterEndpoint(listener, address.host, address.port),))
            for voter_id, address in ids_and_addresses
        )
    )


def test_a_voter_set_is_in_force_as_soon_as_it_is_read() -> None:
    batch = control_batch_of([voters((101, C))], base_offset=0, epoch=5)
    asked = led().answer(fetched(leader=LEADER, records=batch, high_watermark=-1))
    assert asked.applied() == []
    assert asked.observer.voters == {101: C}
    assert {asked.fail().resume().ask.address for _ in range(3)} == {A, B, C}


def test_a_voter_set_that_was_dropped_is_in_force_no_more() -> None:
    batch = control_batch_of([voters((101, C))], base_offset=1, epoch=5)
    asked = led().answer(fetched(leader=LEADER, records=noops(0) + batch, high_watermark=1))
    asked.answer(fetched(leader=LEADER, diverging=(5, 1)))
    assert asked.observer.voters == {}


def test_a_snapshot_brings_the_voter_set_along() -> None:
    data = snapshot_of(RECORDS, controls=[quorum.KRaftVersionRecord(1), voters((101, C))])
    asked = downloading().answer(piece(data, snapshot=ID, position=0, size=len(data), leader=LEADER))
    assert asked.observer.voters == {101: C}


def test_endpoints_of_another_listener_are_no_addresses() -> None:
    batch = control_batch_of([voters((101, C), listener="OTHER")], base_offset=0, epoch=5)
    assert led().answer(fetched(leader=LEADER, records=batch)).observer.voters == {}


def test_a_broker_may_not_have_the_id_of_a_voter() -> None:
    """cluster.md 1.1"""
    batch = control_batch_of([voters((7, C))], base_offset=0, epoch=5)
    with pytest.raises(QuorumLost, match=r"node\.id 7 is the id of a controller"):
        led().answer(fetched(leader=LEADER, records=batch))
    with pytest.raises(QuorumLost, match=r"node\.id 7 is the id of a controller"):
        Asked().answer(fetched(leader=(7, 5), error=ErrorCode.FENCED_LEADER_EPOCH))
    with pytest.raises(QuorumLost, match=r"node\.id 7 is the id of a controller"):
        Observer(replace(CONFIG, voters={7: C}))


# A quorum that was reset (cluster.md 3.6.5 and 3.7)


def stale_for(asked: Asked, moments_ms: Sequence[int]) -> None:
    for asked.now_ms in moments_ms:
        asked.answer(fetched(leader=(101, 1), error=ErrorCode.UNKNOWN_LEADER_EPOCH)).resume()


def test_a_quorum_that_only_answers_with_older_epochs_was_reset() -> None:
    with pytest.raises(QuorumLost, match="formatted again"):
        stale_for(led(), range(0, 60_001, 5000))


def test_one_answer_that_is_new_enough_shows_that_the_quorum_is_there() -> None:
    asked = led()
    stale_for(asked, range(0, 50_001, 5000))
    asked.answer(fetched(leader=LEADER, high_watermark=0, endpoints=[AT_A]))
    stale_for(asked, range(55_000, 110_001, 5000))


def test_a_silence_does_not_count_as_an_answer_that_is_behind() -> None:
    asked = led()
    stale_for(asked, [0, 5000])
    asked.fail().resume()
    stale_for(asked, [200_000, 205_000])


def test_a_quorum_that_stays_below_what_an_earlier_run_has_seen_was_reset() -> None:
    """cluster.md 3.7"""
    config = replace(CONFIG, expected_offset=100)
    asked = led(config)
    below_for(asked, range(0, 59_000, 500))
    asked.answer(fetched(leader=LEADER, high_watermark=101))
    below_for(asked, range(59_000, 119_000, 500))
    with pytest.raises(QuorumLost, match="up to offset 100"):
        below_for(asked, range(119_000, 121_000, 500))


def below_for(asked: Asked, moments_ms: Sequence[int]) -> None:
    for asked.now_ms in moments_ms:
        asked.answer(fetched(leader=LEADER, high_watermark=100))


def endpoint(node_id: int, address: Address) -> fetch_snapshot.NodeEndpoint:
    return fetch_snapshot.NodeEndpoint(node_id, address.host, address.port)
