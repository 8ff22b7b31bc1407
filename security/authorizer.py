"""`StandardAuthorizer`: what sessions may do, by access control entries, as Kafka's class of that name decides it
(security.md 4.3).

A super user may do everything. Else a denial that matches forbids, then whatever matches and allows permits; where no
entry is about the resource at all, `allow.everyone.if.no.acl.found` decides. The entries are those of the cluster's
metadata, taken over step by step as they become durable.

Always true: an answer that was remembered is one of the entries as they are now, since the memory of every principal
dies with the index that it was made of (security.md 4.4.2); nothing here waits or raises for what a peer sent; and a
fault in here allows nothing, it ends the connection that asked (security.md 6.5.5).
"""

import logging
from collections.abc import Iterable, Sequence
from itertools import chain
from sys import getsizeof
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from eosin.model.acls import Acl
from eosin.model.close_connection import CloseConnection
from eosin.model.resources import Operation, ResourceType
from eosin.runtime.logging_format import fields
from eosin.security.acl_index import EVERYTHING, AclIndex, host_key

if TYPE_CHECKING:
    from eosin.security.decision_log import LoggedDecisions
    from eosin.security.session import Session

log = logging.getLogger(__name__)

REMEMBERED: Final = 4096
"""Resources of one kind of which the answers are remembered, for each principal and address."""
REMEMBERED_CHARS: Final = 256
"""Of a longer name no answer is remembered: topics have 249 at most, and a peer may ask about 32 KiB."""
REMEMBERED_BYTES: Final = 32 << 20
"""Of all principals and addresses together, about."""
_ENTRY_BYTES: Final = 100
"""The memory that an answer takes beside its name."""

_ANY_NAME: Final = "hardcode"
"""The name that Kafka asks about first where any name will do (security.md 4.3.5)."""


class AccessDecision(NamedTuple):
    """An answer and its reason."""

    allowed: bool
    rule: str
    """The entry that decided, `SuperUser`, `DefaultDeny`, or that there is no entry for the resource."""


class KnownDecisions:
    """The answers for the sessions of one principal and address, and the index that gave them."""

    __slots__ = ("__weakref__", "any_of", "host", "index", "is_super", "kept_bytes", "permitted", "principal")

    def __init__(self, principal: str, host: str | None, *, is_super: bool) -> None:
        self.principal = principal
        self.host = host
        """As a `host_key`."""
        self.is_super = is_super
        self.index: AclIndex | None = None
        self.permitted: tuple[dict[str, int], ...] = tuple({} for _ in ResourceType)
        """By resource type: the operations on each resource, as a set of bits."""
        self.any_of: dict[tuple[int, int], bool] = {}
        """By resource type and operation."""
        self.kept_bytes = 0
        """Of `permitted`."""

    def forget(self) -> None:
        """Remember nothing."""
        for of_kind in self.permitted:
            of_kind.clear()
        self.any_of.clear()
        self.kept_bytes = 0


class StandardAuthorizer:
    """Implements `eosin.security.session.Authorizer`."""

    def __init__(
        self, *, super_users: Iterable[str] = (), allow_everyone: bool = False, log: "LoggedDecisions | None" = None
    ) -> None:
        """`super_users` are principals as `TYPE:NAME`; `allow_everyone` is the answer where no entry is about a
        resource."""
        self.index = AclIndex()
        self._super_users = frozenset(super_users)
        self._default = EVERYTHING if allow_everyone else 0
        self._log = log
        self._answers: WeakValueDictionary[tuple[str, str], KnownDecisions] = WeakValueDictionary()
        self._kept_bytes = 0
        """Of all answers, or more: what sessions took with them is counted until somebody looks."""

    def change(self, *, added: Sequence[Acl] = (), removed: Sequence[Acl] = ()) -> None:
        """Follow a change of the entries; the next question is answered by it."""
        self.index = self.index.changed(added=added, removed=removed)

    def may(self, session: "Session", operation: Operation, kind: ResourceType, name: str, *, quiet: bool) -> bool:
        """True if `session` may do this to the resource `name`. `quiet`: operators are not shown a denial. Raises
        `CloseConnection` if the decision fails."""
        try:
            answers: KnownDecisions | None = session.decisions
            if answers is None or answers.index is not self.index:
                answers = self._current(session)
            permitted = answers.permitted[kind].get(name)
            if permitted is None:
                permitted = self._remember(answers, kind, name)
            told = self._log
            if permitted >> operation & 1:
                if told is not None and told.grants():
                    told.allowed(session, operation, kind, name)
                return True
            if told is not None:
                told.denied(session, operation, kind, name, quiet=quiet)
            return False
        except Exception as error:
            raise _closed(session) from error

    def may_any(self, session: "Session", operation: Operation, kind: ResourceType, *, quiet: bool) -> bool:
        """True if `session` may do this to at least one resource of the kind (security.md 4.3.5). Raises
        `CloseConnection` if the decision fails."""
        try:
            answers: KnownDecisions | None = session.decisions
            if answers is None or answers.index is not self.index:
                answers = self._current(session)
            allowed = answers.any_of.get((kind, operation))
            if allowed is None:
                allowed = self._decide(answers, kind, _ANY_NAME) >> operation & 1 == 1 or self.index.permits_any(
                    kind, operation, answers.principal, answers.host
                )
                answers.any_of[kind, operation] = allowed
            if not allowed and self._log is not None:
                self._log.denied(session, operation, kind, "*", quiet=quiet)
            return allowed
        except Exception as error:
            raise _closed(session) from error

    def decision(
        self, operation: Operation, kind: ResourceType, name: str, *, principal: str, host: str
    ) -> AccessDecision:
        """The answer to a question, with its reason. It takes longer than `may`."""
        if principal in self._super_users:
            return AccessDecision(True, "SuperUser")
        place = host_key(host)
        acl = self.index.deciding(kind, name, operation, principal, place)
        permitted = self.index.permitted(kind, name, principal, place)
        if permitted is None:
            default = bool(self._default)
            rule = f"no entry for the resource, and allow.everyone.if.no.acl.found is {str(default).lower()}"
            return AccessDecision(default, rule)
        return AccessDecision(permitted >> operation & 1 == 1, "DefaultDeny" if acl is None else str(acl))

    def is_super(self, principal: str) -> bool:
        """True if `super.users` names it."""
        return principal in self._super_users

    def _current(self, session: "Session") -> KnownDecisions:
        """The memory of the session's principal and address, without what an older index said."""
        answers: KnownDecisions | None = session.decisions
        if answers is None:
            key = str(session.principal), session.host
            answers = self._answers.get(key)
            if answers is None:
                answers = KnownDecisions(key[0], host_key(key[1]), is_super=key[0] in self._super_users)
                self._answers[key] = answers
            session.decisions = answers
        if answers.index is not self.index:
            answers.index = self.index
            answers.forget()
        return answers

    def _remember(self, answers: KnownDecisions, kind: int, name: str) -> int:
        permitted, of_kind = self._decide(answers, kind, name), answers.permitted[kind]
        if len(name) > REMEMBERED_CHARS:
            return permitted
        if len(of_kind) >= REMEMBERED:
            of_kind.clear()
            answers.kept_bytes = sum(map(_bytes_of, chain.from_iterable(answers.permitted)))
        of_kind[name] = permitted
        size = _bytes_of(name)
        answers.kept_bytes += size
        self._kept_bytes += size
        if self._kept_bytes > REMEMBERED_BYTES:
            self._make_room()
        return permitted

    @property
    def kept_bytes(self) -> int:
        """The approximate memory of the answers that are remembered."""
        return sum(each.kept_bytes for each in self._answers.values())

    def _make_room(self) -> None:
        """Drop the answers of the sessions that hold most, until half of the room is free."""
        kept = sorted(self._answers.values(), key=lambda answers: answers.kept_bytes)
        left = sum(answers.kept_bytes for answers in kept)
        while left > REMEMBERED_BYTES // 2:
            most = kept.pop()
            left -= most.kept_bytes
            most.forget()
        self._kept_bytes = left

    def _decide(self, answers: KnownDecisions, kind: int, name: str) -> int:
        if answers.is_super:
            return EVERYTHING
        permitted = self.index.permitted(kind, name, answers.principal, answers.host)
        return self._default if permitted is None else permitted


def _bytes_of(name: str) -> int:
    return getsizeof(name) + _ENTRY_BYTES


def _closed(session: "Session") -> CloseConnection:
    """Logs the fault that is being handled; what a broken check comes to."""
    log.exception(
        "a check of rights failed, and its connection is closed",
        extra=fields(principal=str(session.principal), api=session.api, peer=session.host),
    )
    return CloseConnection()
