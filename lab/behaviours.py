"""`BEHAVIOURS`: the brokers that one of the lab can behave like, each as settings, a delay of markers and its errors.

Always true: a test meets a broker that is no kinder than Apache Kafka unless it asks for `eosin`, which is the product
with its own defaults; settings of a test are stronger than those here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EOSIN: Final = "eosin"
KAFKA: Final = "kafka"
KAFKA_2_5: Final = "kafka-2.5"
DEFAULT_BEHAVIOUR: Final = KAFKA
_STRICT: Final = {
    "transaction.timeout.recovery": "kafka",
    "eosin.concurrent.transactions.wait.ms": "0",
    "eosin.end.txn.marker.wait.ms": "0",
}
BEHAVIOURS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        KAFKA: {**_STRICT, "eosin.transaction.version": "2"},
        "kafka-3.9": {**_STRICT, "eosin.transaction.version": "1"},
        KAFKA_2_5: {
            **_STRICT,
            "eosin.transaction.version": "0",
            "transaction.partition.verification.enable": "false",
        },
        EOSIN: {},
    }
)
"""Settings by the name of a behaviour."""
MARKERS_AFTER_MS: Final = 5
"""Markers follow the response to EndTxn after so long, but with `eosin`: whoever begins the next transaction at once
meets CONCURRENT_TRANSACTIONS, as with Apache Kafka."""


def markers_after_ms(behaviour: str) -> int:
    """The delay of markers in real time."""
    return 0 if behaviour == EOSIN else MARKERS_AFTER_MS


def is_before_producer_fenced(behaviour: str) -> bool:
    """True for a broker that says INVALID_PRODUCER_EPOCH where later ones say PRODUCER_FENCED (KIP-588)."""
    return behaviour == KAFKA_2_5
