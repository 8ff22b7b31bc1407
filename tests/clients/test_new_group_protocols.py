"""A consumer of a group protocol that is not served hears so at once, instead of waiting without end."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pytest
from broker_process import BrokerProcess
from client_features import lower_features
from waiting import HANG_S


def fatal_error(consumer: Any, poll: Callable[[], Iterable[ck.Message]]) -> Any:
    """The first error that polling brings, sooner or later."""
    deadline = time.monotonic() + HANG_S
    try:
        consumer.subscribe(["any"])
        while time.monotonic() < deadline:
            for message in poll():
                if message.error():
                    return message.error()
    except ck.KafkaException as refused:
        return refused.args[0]
    finally:
        consumer.close()
    raise AssertionError("it waits for a coordinator that will never answer")


OLDER: Final = ("group.version", "share.version")
"""Features that a directory of an older Eosin has at level 0."""


@pytest.mark.process
def test_librdkafka_with_the_consumer_protocol_fails_at_once(data_dir: Path) -> None:
    with BrokerProcess(data_dir) as broker:
        lower_features(broker.address, *OLDER)
        consumer = ck.Consumer({"bootstrap.servers": broker.address, "group.id": "g", "group.protocol": "consumer"})
        error = fatal_error(consumer, lambda: consumer.consume(1, timeout=0.2))
    assert error.code() == ck.KafkaError._FATAL
    assert "ConsumerGroupHeartbeat" in error.str()


@pytest.mark.process
@pytest.mark.skipif(not hasattr(ck, "ShareConsumer"), reason="this librdkafka has no share consumer")
def test_librdkafka_with_a_share_consumer_fails_at_once(data_dir: Path) -> None:
    with BrokerProcess(data_dir) as broker:
        lower_features(broker.address, *OLDER)
        consumer = ck.ShareConsumer({"bootstrap.servers": broker.address, "group.id": "shared"})
        error = fatal_error(consumer, lambda: consumer.poll(0.2))
    assert (error.code(), error.fatal()) == (ck.KafkaError.UNSUPPORTED_VERSION, True)
    assert "ShareGroupHeartbeat" in error.str()
