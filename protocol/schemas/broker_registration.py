"""BrokerRegistration (key 62), versions 0-4: a broker joins the metadata quorum, or comes back to it (cluster.md 2.3).

Flexible from the start. v1 adds is_migrating_zk_broker, v2 adds log_dirs and v3 adds previous_broker_epoch to the
request. v4 is the first that can name a feature whose minimum is 0.
"""

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    ApiSchema,
    Boolean,
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    Uint16,
    Uuid,
    array,
    message,
    string,
    when,
)


class Listener(Message):
    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


class Feature(Message):
    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


class BrokerRegistrationRequest(Message):
    broker_id: int = 0
    cluster_id: str = ""
    incarnation_id: bytes = ZERO_UUID
    listeners: tuple[Listener, ...] = ()
    features: tuple[Feature, ...] = ()
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[bytes, ...] = ()
    previous_broker_epoch: int = -1


class BrokerRegistrationResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    broker_epoch: int = -1


def broker_registration_request(version: int) -> Layout:
    """The request at `version`."""
    flexible = True
    listener = message(
        Listener,
        flexible,
        "name" / string(flexible),
        "host" / string(flexible),
        "port" / Uint16,
        "security_protocol" / Int16,
    )
    feature = message(
        Feature,
        flexible,
        "name" / string(flexible),
        "min_supported_version" / Int16,
        "max_supported_version" / Int16,
    )
    return message(
        BrokerRegistrationRequest,
        flexible,
        "broker_id" / Int32,
        "cluster_id" / string(flexible),
        "incarnation_id" / Uuid,
        "listeners" / array(listener, flexible),
        "features" / array(feature, flexible),
        "rack" / string(flexible, nullable=True),
        *when(version >= 1, "is_migrating_zk_broker" / Boolean),
        *when(version >= 2, "log_dirs" / array(Uuid, flexible)),
        *when(version >= 3, "previous_broker_epoch" / Int64),
    )


def broker_registration_response(version: int) -> Layout:
    """The response at `version`."""
    return message(
        BrokerRegistrationResponse,
        True,
        "throttle_time_ms" / Int32,
        "error_code" / Int16,
        "broker_epoch" / Int64,
    )


SCHEMA = ApiSchema(
    key=ApiKey.BROKER_REGISTRATION,
    versions=range(0, 5),
    flexible_from=0,
    request=broker_registration_request,
    response=broker_registration_response,
)
