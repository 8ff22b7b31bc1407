"""Two replays of the same records: Apache Kafka's own classes, recorded by `tests/support/record_images.py`, and ours.

Apache Kafka's image is written down as the records of a snapshot; an image that is made of these must be the one that
is made of the log.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eosin.cluster.quorum.rules.image import ClusterImage
from eosin.cluster.quorum.rules.replay import Replay
from eosin.protocol.records.metadata import decode_metadata_record

RECORDED = json.loads((Path(__file__).parent / "images.json").read_text())["images"]


@pytest.mark.parametrize("recorded", RECORDED, ids=[f"seed-{each['seed']}" for each in RECORDED])
def test_the_image_is_that_of_apache_kafka(recorded: dict[str, Any]) -> None:
    ours, theirs = image_of(recorded["log"]), image_of(recorded["image"])
    assert ours.partition_count == sum(len(topic.partitions) for topic in ours.topics.values())
    for topic in ours.topics.values():
        assert dict(topic.partitions) == dict(theirs.topics[topic.name].partitions)
    assert replace(ours, offset=0) == replace(theirs, offset=0)


def image_of(values: list[str]) -> ClusterImage:
    replay = Replay()
    for offset, value in enumerate(values):
        replay.apply(offset, decode_metadata_record(bytes.fromhex(value)))
    replay.advance(len(values) - 1, 1)
    return replay.publish().after
