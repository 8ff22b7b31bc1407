"""What a controller of Apache Kafka answered, played back: the observer asks the same, and makes the same of it.

`make transcripts-controller` records them (`tests/support/record_controller.py`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eosin.client.addresses import Address
from eosin.cluster.quorum.leader import ActiveController
from eosin.cluster.quorum.observer import Apply, Effects, Follow, Observer, ObserverConfig, Pause, Restore, SendRequest
from eosin.cluster.quorum.rules.batches import control_records, data_records
from eosin.cluster.quorum.rules.errors import QuorumLost
from eosin.cluster.quorum.rules.replay import Replay
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.fetch import FetchResponse
from eosin.protocol.schemas.fetch_snapshot import FetchSnapshotResponse
from eosin.protocol.schemas.records import quorum
from eosin.protocol.wire import codec

FOLDER = Path(__file__).parent / "transcripts"
DIRECTORY_ID = bytes(range(16))


def transcript(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def response_of(exchange: dict[str, Any]) -> Any:
    schema = schema_of(ApiKey[exchange["api"]])
    assert schema is not None
    return codec.interpret(schema.response_layout(exchange["version"]), bytes.fromhex(exchange["response"]))


class Playback:
    """An observer and its replay, played through a transcript: each request must be the one that was recorded."""

    def __init__(self, of: dict[str, Any], **limits: int) -> None:
        _, host, port = of["controller"]
        self.observer = Observer(
            ObserverConfig(
                cluster_id=of["cluster_id"],
                node_id=of["node_id"],
                directory_id=DIRECTORY_ID,
                listener="CONTROLLER",
                bootstrap=(Address(host, port),),
                **limits,  # type: ignore[arg-type]
            )
        )
        self.replay = Replay()
        self.effects: list[Any] = []
        self.apis: list[str] = []
        latest = self._do(self.observer.start())
        for exchange in of["exchanges"]:
            while isinstance(latest, Pause):
                latest = self._do(self.observer.resumed())
            schema = schema_of(latest.key)
            assert schema is not None
            assert (latest.key.name, latest.address) == (exchange["api"], Address(host, port))
            assert codec.build(schema.request_layout(exchange["version"]), latest.message).hex() == exchange["request"]
            self.apis.append(exchange["api"])
            latest = self._do(self.observer.handle_response(response_of(exchange), 0))

    def _do(self, effects: Effects) -> SendRequest | Pause:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Restore):
                self.replay = Replay(self.replay.published, is_snapshot=True)
                for batch in effect.batches:
                    if not batch.is_control:
                        for offset, record in data_records(batch):
                            self.replay.apply(offset, record)
                self.replay.advance(effect.snapshot_id.end_offset - 1, effect.snapshot_id.epoch)
            elif isinstance(effect, Apply):
                for batch in effect.batches:
                    if not batch.is_control:
                        for offset, record in data_records(batch):
                            self.replay.apply(offset, record)
                    self.replay.advance(batch.last_offset, batch.epoch)
        last = effects[-1]
        assert isinstance(last, SendRequest | Pause)
        return last


def test_the_log_from_its_start_makes_the_recorded_image() -> None:
    of = transcript("log-from-the-start")
    played = Playback(of)
    image = played.replay.publish().after
    assert image.offset == of["offset"]
    assert list(image.topics) == ["payments"]
    partition = image.topics["payments"].partitions[0]
    assert [partition.leader, partition.leader_epoch, partition.partition_epoch] == of["payments"]
    broker = image.brokers[of["node_id"]]
    assert (broker.epoch, broker.fenced) == (of["broker_epoch"], False)
    assert image.metadata_version == 33
    assert [each for each in played.effects if isinstance(each, Follow)] == [
        Follow(ActiveController(*[of["controller"][0], image.epoch, *of["controller"][1:]]))
    ]


def test_the_first_batches_of_the_log_are_what_the_page_says() -> None:
    """cluster.md 3.4: control records first, then the bootstrap records inside one transaction"""
    played = Playback(transcript("log-from-the-start"))
    batches = [batch for each in played.effects if isinstance(each, Apply) for batch in each.batches]
    controls = [record for batch in batches if batch.is_control for _, record in control_records(batch)]
    assert [type(record) for record in controls] == [
        quorum.LeaderChangeMessage,
        quorum.KRaftVersionRecord,
        quorum.VotersRecord,
    ]
    first = next(batch for batch in batches if not batch.is_control)
    names = [type(record).__name__ for _, record in data_records(first)]
    assert names[0] == "BeginTransactionRecord"


def test_a_snapshot_in_pieces_makes_the_recorded_image() -> None:
    of = transcript("snapshot")
    played = Playback(of, snapshot_max_bytes=1500)
    image = played.replay.publish().after
    assert played.apis[:2] == ["FETCH", "FETCH"]
    assert played.apis.count("FETCH_SNAPSHOT") > 1
    assert image.offset == of["offset"]
    assert list(image.topics) == of["topics"]
    assert image.partition_count == of["partitions"]
    assert played.observer.voters.keys() == {of["controller"][0]}
    assert played.observer.is_caught_up


REFUSALS = {
    "an epoch that is over": (0, ErrorCode.FENCED_LEADER_EPOCH),
    "another cluster": (ErrorCode.INCONSISTENT_CLUSTER_ID, None),
    "an epoch to come": (0, ErrorCode.UNKNOWN_LEADER_EPOCH),
    "a last epoch of -1": (0, ErrorCode.INVALID_REQUEST),
    "a last epoch to come": (0, ErrorCode.INVALID_REQUEST),
    "beyond the end": (0, ErrorCode.NONE),
    "a snapshot": (0, ErrorCode.NONE),
    "another topic": (ErrorCode.INVALID_REQUEST, None),
    # Apache Kafka 4.3.1 cannot write a response with an error of a partition, whatever it is (cluster.md 3.5).
    "no such snapshot": (ErrorCode.UNKNOWN_SERVER_ERROR, None),
    "behind its end": (ErrorCode.UNKNOWN_SERVER_ERROR, None),
    "at a position of -1": (ErrorCode.UNKNOWN_SERVER_ERROR, None),
    "of an epoch that is over": (ErrorCode.UNKNOWN_SERVER_ERROR, None),
    "of an epoch to come": (ErrorCode.UNKNOWN_SERVER_ERROR, None),
    "of another topic": (ErrorCode.UNKNOWN_SERVER_ERROR, None),
    "of another cluster": (ErrorCode.INCONSISTENT_CLUSTER_ID, None),
}


def refusals() -> Iterator[Any]:
    for exchange in transcript("refusals")["exchanges"]:
        if exchange["case"] in REFUSALS:
            yield pytest.param(exchange, *REFUSALS[exchange["case"]], id=exchange["case"])


@pytest.mark.parametrize(("exchange", "top_level", "error"), list(refusals()))
def test_a_leader_refuses_as_the_page_says(exchange: dict[str, Any], top_level: int, error: int | None) -> None:
    """cluster.md 3.1, 3.2 and 3.5"""
    response = response_of(exchange)
    assert response.error_code == top_level
    if isinstance(response, FetchResponse):
        partitions = [partition for topic in response.responses for partition in topic.partitions]
    else:
        assert isinstance(response, FetchSnapshotResponse)
        partitions = [partition for topic in response.topics for partition in topic.partitions]
    assert [partition.error_code for partition in partitions] == ([] if error is None else [error])


def test_every_answer_of_a_leader_names_it_with_its_epoch_and_address() -> None:
    """cluster.md 3.2.2: also those without an error"""
    of = transcript("log-from-the-start")
    node_id, host, port = of["controller"]
    for exchange in of["exchanges"]:
        response = response_of(exchange)
        [endpoint] = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (node_id, host, port)
        assert response.responses[0].partitions[0].current_leader.leader_id == node_id


@pytest.mark.parametrize("case", ["no such snapshot", "of an epoch that is over"])
def test_a_download_that_is_refused_starts_over_with_a_fetch(case: str) -> None:
    """cluster.md 3.5"""
    of = transcript("snapshot")
    of["exchanges"] = of["exchanges"][:3]
    played = Playback(of, snapshot_max_bytes=1500)
    [exchange] = [each for each in transcript("refusals")["exchanges"] if each["case"] == case]
    assert isinstance(played.observer.handle_response(response_of(exchange), 0)[-1], Pause)
    [ask] = played.observer.resumed()
    assert isinstance(ask, SendRequest)
    assert ask.key is ApiKey.FETCH


def test_a_leader_whose_log_ends_below_what_was_committed_has_lost_metadata() -> None:
    """cluster.md 3.3: a quorum that was formatted again"""
    [exchange] = [each for each in transcript("refusals")["exchanges"] if each["case"] == "beyond the end"]
    response = response_of(exchange)
    played = Playback(transcript("log-from-the-start"))
    played.observer.high_watermark = response.responses[0].partitions[0].diverging_epoch.end_offset + 1
    with pytest.raises(QuorumLost, match="lost committed metadata"):
        played.observer.handle_response(response, 0)
