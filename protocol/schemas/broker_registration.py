"""BrokerRegistration (key 62), versions 0-4: a broker joins the metadata quorum, or comes back to it (cluster.md 2.3).

Flexible from the start. v1 adds is_migrating_zk_broker, v2 adds log_dirs and v3 adds previous_broker_epoch to the
request. v4 is the first that can name a feature whose minimum is 0.
"""

from __future__ import annotations

from typing import Annotated

from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import ApiSchema, Int16, Int32, Int64, Message, Uint16, Uuid


class Listener(Message):
    name: str = ""
    host: str = ""
    port: Uint16 = 0
    security_protocol: Int16 = 0


class Feature(Message):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class BrokerRegistrationRequest(Message):
    broker_id: Int32 = 0
    cluster_id: str = ""
    incarnation_id: Uuid = ZERO_UUID
    listeners: tuple[Listener, ...] = ()
    features: tuple[Feature, ...] = ()
    rack: str | None = None
    is_migrating_zk_broker: Annotated[bool, "1+"] = False
    log_dirs: Annotated[tuple[Uuid, ...], "2+"] = ()
    previous_broker_epoch: Annotated[Int64, "3+"] = -1


class BrokerRegistrationResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1


SCHEMA = ApiSchema(
    key=ApiKey.BROKER_REGISTRATION,
    versions=range(0, 5),
    flexible_from=0,
    request=BrokerRegistrationRequest,
    response=BrokerRegistrationResponse,
)
