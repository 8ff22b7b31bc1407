"""`QuotaTable`: which quotas were set, and which of them a request comes under (security.md 5.1; KIP-55, KIP-546).

It is part of the cluster's metadata: changed by whoever applies records, read by the enforcement and by the handlers.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)


class QuotaKey(StrEnum):
    """The limited resources, by the names of Kafka's settings."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


Entity = tuple[tuple[str, str | None], ...]
"""The entity that a quota is for: types and names in the order of types, with None for the default of a type."""


class QuotaChange(NamedTuple):
    """One quota to be set or removed."""

    entity: Entity
    key: str
    value: float | None
    """None removes it."""


class Limit(NamedTuple):
    """A quota as it concerns one request."""

    bound: float
    shared_by: tuple[str, str]
    """User and client id of those who use it up together; empty where it does not matter."""


class QuotaTable:
    """All quotas of the cluster."""

    def __init__(self) -> None:
        self._values: dict[Entity, dict[str, float]] = {}
        self._entities: Counter[str] = Counter()
        """Entities that have a quota, by its key: with 100,000 users a look at each for every change takes too long."""
        self.on_change: list[Callable[[], None]] = []
        """Called when quotas were set or removed."""

    def __bool__(self) -> bool:
        return bool(self._values)

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._values.items())

    def put(self, entity: Entity, key: str, value: float) -> None:
        """Set one quota."""
        values = self._values.setdefault(entity, {})
        self._entities[key] += key not in values
        values[key] = value
        self._changed()

    def remove(self, entity: Entity, key: str) -> None:
        """Remove one quota, if it was set."""
        values = self._values.get(entity, {})
        self._entities[key] -= values.pop(key, None) is not None
        if not values:
            self._values.pop(entity, None)
        self._changed()

    def replace_all(self, quotas: Mapping[Any, Mapping[str, float]]) -> None:
        """Take over all quotas of somewhere else; their entities hold pairs of type and name, of any class."""
        self._values = {tuple((part[0], part[1]) for part in entity): dict(values) for entity, values in quotas.items()}
        self._entities = Counter(key for values in self._values.values() for key in values)
        self._changed()

    def limits(self, key: QuotaKey) -> bool:
        """True if any entity has a quota of this kind."""
        return self._entities[key] > 0

    def of_request(self, key: QuotaKey, user: str, client_id: str) -> Limit | None:
        """The quota that a request of this user and client id comes under: the most specific that has this key."""
        for entity, shared_by in (
            (((CLIENT_ID, client_id), (USER, user)), (user, client_id)),
            (((CLIENT_ID, None), (USER, user)), (user, client_id)),
            (((USER, user),), (user, "")),
            (((CLIENT_ID, client_id), (USER, None)), (user, client_id)),
            (((CLIENT_ID, None), (USER, None)), (user, client_id)),
            (((USER, None),), (user, "")),
            (((CLIENT_ID, client_id),), ("", client_id)),
            (((CLIENT_ID, None),), ("", client_id)),
        ):
            values = self._values.get(entity)
            if values is not None and key in values:
                return Limit(values[key], shared_by)
        return None

    def of_address(self, address: str) -> float | None:
        """The number of connections that an address may make per second; None without a limit."""
        for entity in (((IP, address),), ((IP, None),)):
            bound = self._values.get(entity, {}).get(QuotaKey.CONNECTION_CREATION_RATE)
            if bound is not None:
                return bound
        return None

    def _changed(self) -> None:
        for each in self.on_change:
            each()


_KEYS: Final = {
    IP: (QuotaKey.CONNECTION_CREATION_RATE,),
    USER: tuple(each for each in QuotaKey if each is not QuotaKey.CONNECTION_CREATION_RATE),
}
_INT_MAX: Final = 2**31 - 1
_EXACT_MAX: Final = 2**53
"""Beyond, a value as it comes on the wire is no exact integer."""


def wrong_entity(parts: list[tuple[str, str | None]]) -> str | None:
    """Return the reason, in a sentence, why no entity of these parts can have a quota; None if one can."""
    if not parts:
        return "Invalid empty client quota entity"
    kinds = [kind for kind, _ in parts]
    for kind, name in parts:
        if kind not in ENTITY_TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
        if kinds.count(kind) > 1:
            return f"Client quota entity type {kind} is there twice"
    if IP in kinds:
        if len(kinds) > 1:
            return "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        if parts[0][1] is not None and plain_address(parts[0][1]) is None:
            return f"{parts[0][1]} is not a valid IP"
    return None


def wrong_value(entity: Entity, key: str, value: float | None) -> str | None:
    """Return the reason, in a sentence, why `value` is invalid for `key` (None removes it); None if it is valid."""
    allowed = _KEYS[IP if entity[0][0] == IP else USER]
    if key not in allowed:
        return f"Invalid configuration key {key}"
    if value is None:
        return None
    if not value > 0:
        return f"Quota {key} must be greater than 0"
    if key in (QuotaKey.REQUEST_PERCENTAGE, QuotaKey.CONTROLLER_MUTATION_RATE):
        return None if value < float("inf") else f"Proposed value for {key} is too large for a DOUBLE."
    most, kind = (_INT_MAX, "INT") if key == QuotaKey.CONNECTION_CREATION_RATE else (_EXACT_MAX, "LONG")
    if value > most:
        return f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}."
    return None if value == int(value) else f"{key} cannot be a fractional value."


def plain_address(text: str) -> str | None:
    """An IP address in its one spelling, a v4 address in v6 as v4; None when it is none."""
    import ipaddress  # takes longer to import than most brokers start: only quotas of addresses need it

    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def entity_of(parts: list[tuple[str, str | None]]) -> Entity:
    """The entity of parts that were found right, in the order of types; addresses in their one spelling."""
    return tuple(sorted((kind, plain_address(name) if kind == IP and name else name) for kind, name in parts))
