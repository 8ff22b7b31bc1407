"""Read the requests about access control entries, and check that they make sense (security.md 4.5)."""

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from eosin.model.acls import Acl, AclFilter, PatternType, Permission
from eosin.model.cluster import Outcome
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eosin.protocol.schemas.create_acls import AclCreation
    from eosin.protocol.schemas.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl
    from eosin.protocol.schemas.describe_acls import DescribeAclsRequest

FIRST_PATTERN_VERSION: Final = 1
"""Below it there are no patterns but literal ones."""
MOST_FILTERS: Final = 10_000
MOST_CREATIONS: Final = 2000
"""Entries that are written, and taken over by the authorizer, in one step."""
MOST_CREATION_CHARS: Final = 1 << 20
"""Of the names of resources, principals and hosts in them."""
_SHOWN_CHARS: Final = 64

GOOD: Final = Outcome(ErrorCode.NONE, "")
"""The outcome of success: Apache Kafka sends an empty message for it, not none."""
DISABLED: Final = Outcome(ErrorCode.SECURITY_DISABLED, "No authorizer is configured on this broker")
_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_OPERATIONS: Final = frozenset(Operation) - {Operation.UNKNOWN, Operation.ANY}
_PATTERNS: Final = frozenset({PatternType.LITERAL, PatternType.PREFIXED})
_PERMISSIONS: Final = frozenset({Permission.DENY, Permission.ALLOW})
_FILTER_TYPES: Final = _TYPES | {ResourceType.ANY}
_FILTER_PATTERNS: Final = _PATTERNS | {PatternType.ANY, PatternType.MATCH}
_FILTER_OPERATIONS: Final = _OPERATIONS | {Operation.ANY}
_FILTER_PERMISSIONS: Final = _PERMISSIONS | {Permission.ANY}


def is_too_much(creations: "Sequence[AclCreation]") -> bool:
    """True for more entries, or longer ones, than one request may add."""
    if len(creations) > MOST_CREATIONS:
        return True
    chars = sum(len(each.resource_name) + len(each.principal) + len(each.host) for each in creations)
    return chars > MOST_CREATION_CHARS


def new_acl(creation: "AclCreation") -> Acl:
    """The entry that a creation asks for."""
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def removed_acl(matching: "DeleteAclsMatchingAcl") -> Acl:
    """The entry that a response says is gone."""
    return Acl(
        matching.resource_type,
        matching.resource_name,
        matching.pattern_type,
        matching.principal,
        matching.host,
        matching.operation,
        matching.permission_type,
    )


def refusal_of(acl: Acl, api_version: int) -> Outcome | None:
    """The reason why this entry cannot be added; None if it can."""
    if api_version < FIRST_PATTERN_VERSION and acl.pattern_type != PatternType.LITERAL:
        return Outcome(ErrorCode.UNSUPPORTED_VERSION, "Version 0 only supports literal resource pattern types")
    text = next(_problems(acl), None)
    return None if text is None else Outcome(ErrorCode.INVALID_REQUEST, text)


def _problems(acl: Acl) -> "Iterator[str]":
    """Sentences, each made when it is asked for: nearly every entry has none, and a request has thousands of them."""
    if acl.resource_type not in _TYPES:
        yield f"Invalid resourceType {_name_or_number(ResourceType, acl.resource_type)}"
    if acl.pattern_type not in _PATTERNS:
        yield f"Invalid patternType {_name_or_number(PatternType, acl.pattern_type)}"
    if acl.operation not in _OPERATIONS:
        yield f"Invalid operation {_name_or_number(Operation, acl.operation)}"
    if acl.permission not in _PERMISSIONS:
        yield f"Invalid permissionType {_name_or_number(Permission, acl.permission)}"
    if not acl.resource_name:
        yield "Invalid empty resource name"
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        yield f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    kind, colon, _ = acl.principal.partition(":")
    if not colon:
        yield (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from"
            " the principal name)"
        )
    if not kind:
        yield f"The principal `{acl.principal}` has no type"
    if not acl.host:
        yield "The host is empty: it is * for every host, an address, or a network as 10.0.0.0/8"
    if "/" in acl.host and not _is_network(acl.host):
        yield f"The host `{acl.host[:_SHOWN_CHARS]}` is no network: one is written as 10.0.0.0/8 or fd00::/8"


def _is_network(host: str) -> bool:
    from eosin.security.acl_index import network_of  # a broker without an authorizer does not load it

    return network_of(host) is not None


def _name_or_number(kind: type[IntEnum], number: int) -> str:
    return kind(number).name if number in set(kind) else "UNKNOWN"


def filter_of(wanted: "DescribeAclsRequest | DeleteAclsFilter", api_version: int) -> AclFilter | Outcome:
    """The filter that a request describes, or why there is none."""
    pattern = wanted.pattern_type_filter
    if api_version < FIRST_PATTERN_VERSION:
        pattern = PatternType.LITERAL
    known = (
        wanted.resource_type_filter in _FILTER_TYPES,
        pattern in _FILTER_PATTERNS,
        wanted.operation in _FILTER_OPERATIONS,
        wanted.permission_type in _FILTER_PERMISSIONS,
    )
    if not all(known):
        return Outcome(
            ErrorCode.INVALID_REQUEST, "The filter contains an unknown resource type, pattern, operation or permission"
        )
    return AclFilter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        pattern,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )
