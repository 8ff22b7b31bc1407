"""The content of a broker's registration, and the meaning of each refusal: pure (cluster.md 1.6 and 2.3)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from eosin.cluster.quorum.rules.feature_levels import ANY_CONTROLLERS, unsupported_levels
from eosin.model.features import EOSIN_VERSION, SERVES_READERS, SUPPORTED_JOINED, LevelRange
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.broker_registration import BrokerRegistrationRequest, Feature, Listener


def serves_readers(features: Mapping[str, LevelRange]) -> bool:
    """True if a broker that registered with these features answers consumers of partitions that it follows. Every
    release of Apache Kafka that can be in the cluster does."""
    return EOSIN_VERSION not in features or features[EOSIN_VERSION][1] >= SERVES_READERS


PROTOCOL_NUMBERS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Security protocols by their number in a registration."""


class AdvertisedListener(msgspec.Struct, frozen=True):
    """The address at which clients and brokers reach this broker."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class BrokerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's identity, for the life of its process."""

    node_id: int
    cluster_id: str
    incarnation_id: Uuid
    """Random for each process, and never stored: an incarnation keeps leaderships that a killed process must lose."""
    directory_id: Uuid
    listeners: tuple[AdvertisedListener, ...]
    rack: str | None = None
    is_cordoned: bool = False
    """True if its directory gets no new replicas (KIP-1066)."""
    previous_broker_epoch: int = -1
    """The epoch of the last run, if nothing of it is lost (cluster.md 2.9); else -1."""

    @property
    def cordoned_log_dirs(self) -> tuple[Uuid, ...]:
        """The directories that get no new replicas."""
        return (self.directory_id,) if self.is_cordoned else ()


def registration_request(identity: BrokerIdentity) -> BrokerRegistrationRequest:
    """The request that registers a broker; the same again for the same incarnation amends its registration."""
    return BrokerRegistrationRequest(
        broker_id=identity.node_id,
        cluster_id=identity.cluster_id,
        incarnation_id=identity.incarnation_id,
        listeners=tuple(
            Listener(each.name.upper(), each.host, each.port, PROTOCOL_NUMBERS[each.security_protocol])
            for each in identity.listeners
        ),
        features=tuple(Feature(name, low, high) for name, (low, high) in SUPPORTED_JOINED.items()),
        rack=identity.rack,
        log_dirs=(identity.directory_id,),
        previous_broker_epoch=identity.previous_broker_epoch,
    )


def lasting_refusal(
    error: int, *, node_id: int, cluster_id: str, levels: Mapping[str, int], controllers: str = ANY_CONTROLLERS
) -> str | None:
    """Returns why a registration was refused for good, as one sentence; None for an error that may pass.

    `levels` are the finalized features of the cluster as far as they are known; `controllers` are the addresses at
    which its tools reach them.
    """
    match error:
        case ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                f"the controllers are not those of cluster {cluster_id}, which the data directory belongs to: check"
                " controller.quorum.bootstrap.servers, or format another directory"
            )
        case ErrorCode.UNSUPPORTED_VERSION:
            return unsupported_levels(levels, SUPPORTED_JOINED, controllers=controllers) or (
                "the cluster has finalized a feature at a level that Eosin does not support: see kafka-features.sh"
                " describe"
            )
        case ErrorCode.INVALID_REGISTRATION:
            return (
                f"the controller refuses the registration of broker {node_id} as invalid: its log says why; the usual"
                " reason is a copied data directory, whose directory.id is another broker's"
            )
        case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return f"broker {node_id} may not join the cluster: its principal needs CLUSTER_ACTION on the cluster"
        case ErrorCode.BROKER_ID_NOT_REGISTERED:
            return f"the controller refuses to register broker {node_id}, because it is not part of a migration"
        case _:
            return None
