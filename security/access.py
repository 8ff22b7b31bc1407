"""`Access`: which rights an API asks for, declared beside its handler (security.md 4.6, 4.8).

What a whole request needs is asked before its handler runs (`eosin.network.guarded`). What single items of a request
need the handler asks itself, by `context.session`; the declaration names it all the same, since the table in
docs/security.md is made of it, and a test refuses an API without one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final

from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.protocol.errors import ErrorCode
from eosin.security.session import EVERYBODY_MAY

DENIED: Final[Mapping[ResourceType, ErrorCode]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of whoever may not do something to a resource."""


class Scope(Enum):
    """The part of a request that fails with a denial."""

    REQUEST = "the request"
    ITEM = "the item"
    SILENT = "nothing: it is left out"
    NEXT = "nothing: the next right is asked for"


@dataclass(frozen=True, slots=True)
class Right:
    """One right that an API asks for."""

    operation: Operation
    kind: ResourceType
    scope: Scope = Scope.REQUEST
    names: Callable[[Any], Iterable[str]] | None = None
    """The resources that a request needs it for, when its denial is that of the whole request; None where the handler
    asks."""
    note: str = ""
    """The condition under which it is asked for; empty for always."""
    denied: ErrorCode | None = None
    """The error of a denial, where it is not that of the resource's kind."""

    @property
    def error(self) -> ErrorCode:
        """The error for a peer that lacks it."""
        return self.denied or DENIED[self.kind]


Check = Callable[[Any, Any], ErrorCode]
"""(request, context) to the error of the whole request, NONE for one that may be handled."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rights that an API asks for, in the order of its checks."""

    rights: tuple[Right, ...] = ()
    open_because: str = ""
    """The reason why there is nothing to ask for; empty where there is."""
    check: Check | None = None
    """In place of asking for the rights of the whole request one after the other."""
    is_asked_late: bool = False
    """True if the handler asks for the rights of the whole request, by `denial`: after whether the API is served."""

    def __post_init__(self) -> None:
        assert bool(self.rights) != bool(self.open_because), "an API asks for rights, or says why it asks for none"

    @property
    def of_the_request(self) -> Check | None:
        """The check of the whole request; None if only its items are checked."""
        if self.check is not None or self.is_asked_late:
            return self.check
        rights = [each for each in self.rights if each.names is not None]
        return partial(_check_in_order, rights) if rights else None

    def denial(self, request: Any, context: Any) -> ErrorCode:
        """The error of a request whose peer lacks a right for the whole of it, else NONE."""
        if context.session.authorizer is EVERYBODY_MAY:
            return ErrorCode.NONE
        return _check_in_order((each for each in self.rights if each.names is not None), request, context)


def _check_in_order(rights: Iterable[Right], request: Any, context: Any) -> ErrorCode:
    for right in rights:
        assert right.names is not None
        for name in right.names(request):
            if not context.session.may(right.operation, right.kind, name):
                return right.error
    return ErrorCode.NONE


def open_to_all(because: str) -> Access:
    """An API that asks for nothing."""
    return Access(open_because=because)


def on_the_cluster(operation: Operation) -> Right:
    """A right on the cluster, without which the request fails."""
    return Right(operation, ResourceType.CLUSTER, names=lambda request: (CLUSTER_NAME,))


def on_the_group(operation: Operation) -> Right:
    """A right on the group that a request names, without which it fails."""
    return Right(operation, ResourceType.GROUP, names=lambda request: (request.group_id,))


def on_the_transactional_id(operation: Operation) -> Right:
    """A right on the transactional id that a request names, without which it fails."""
    return Right(operation, ResourceType.TRANSACTIONAL_ID, names=lambda request: (request.transactional_id,))


def on_each(operation: Operation, kind: ResourceType, note: str = "") -> Right:
    """A right that the handler asks for each item: without it the item fails."""
    return Right(operation, kind, Scope.ITEM, note=note)


def of_a_replica(note: str) -> Right:
    """The right of a broker of the cluster to read a topic as its follower (security.md 4.6)."""
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return Right(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, Scope.ITEM, note=note, denied=denied)


def silently(operation: Operation, kind: ResourceType, note: str = "") -> Right:
    """A right that the handler asks for each item: what lacks it is left out."""
    return Right(operation, kind, Scope.SILENT, note=note)


def or_the_next(operation: Operation, kind: ResourceType, note: str = "") -> Right:
    """A right that the handler asks for, without a line in the log: whoever lacks it may have the next one."""
    return Right(operation, kind, Scope.NEXT, note=note)
