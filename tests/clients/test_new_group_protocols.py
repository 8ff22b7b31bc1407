"""A consumer of a group protocol that is not served hears so at once, instead of waiting without end."""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import pytest
from broker_process import BrokerProcess
from waiting import HANG_S
from wire import Wire, better_than_kafka

from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

SERVED_THERE: Final = better_than_kafka("Apache Kafka serves the new group protocols")


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


async def stop_serving_consumer_groups(address: str) -> None:
    """The level of a directory that is older."""
    wire = await Wire.open(address)
    update = FeatureUpdateKey("group.version", 0, upgrade_type=2)
    assert (await wire.ask(UpdateFeaturesRequest(feature_updates=(update,)), 1)).error_code == 0
    await wire.close()


@pytest.mark.process
def test_librdkafka_with_the_consumer_protocol_fails_at_once(data_dir: Path) -> None:
    with BrokerProcess(data_dir) as broker:
        asyncio.run(stop_serving_consumer_groups(broker.address))
        consumer = ck.Consumer({"bootstrap.servers": broker.address, "group.id": "g", "group.protocol": "consumer"})
        error = fatal_error(consumer, lambda: consumer.consume(1, timeout=0.2))
    assert error.code() == ck.KafkaError._FATAL
    assert "ConsumerGroupHeartbeat" in error.str()


@SERVED_THERE
@pytest.mark.skipif(not hasattr(ck, "ShareConsumer"), reason="this librdkafka has no share consumer")
def test_librdkafka_with_a_share_consumer_fails_at_once(bootstrap: str) -> None:
    consumer = ck.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": "shared"})
    error = fatal_error(consumer, lambda: consumer.poll(0.2))
    assert (error.code(), error.fatal()) == (ck.KafkaError.UNSUPPORTED_VERSION, True)
    assert "ShareGroupHeartbeat" in error.str()
