"""`AclIndex`: access control entries, arranged so that one question costs a few look-ups (security.md 4.4).

An index never changes. `changed` makes another one that shares whatever has not changed, so whoever holds one sees
either all of a request or nothing of it. Always true: an index made step by step answers like one made of the same
entries at once.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple, final

from eosin.model.acls import EVERYBODY, WILDCARD, Acl, PatternType, Permission
from eosin.model.resources import Operation

EVERYTHING: Final = (1 << max(Operation) + 1) - 1
"""The set of all operations: bit n stands for the operation with number n."""

_IMPLIED: Final[Mapping[int, int]] = {
    Operation.ALL: EVERYTHING,
    Operation.READ: 1 << Operation.READ | 1 << Operation.DESCRIBE,
    Operation.WRITE: 1 << Operation.WRITE | 1 << Operation.DESCRIBE,
    Operation.DELETE: 1 << Operation.DELETE | 1 << Operation.DESCRIBE,
    Operation.ALTER: 1 << Operation.ALTER | 1 << Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: 1 << Operation.ALTER_CONFIGS | 1 << Operation.DESCRIBE_CONFIGS,
}
"""The operations that ALLOW of an operation implies, where that is more than the operation (security.md 4.3.4)."""


Network = IPv4Network | IPv6Network
_Masks = tuple[int, int]
"""Operations as sets of bits: those allowed, those denied."""


@final
class PatternRules:
    """The entries of one principal on one pattern."""

    __slots__ = ("acls", "allowed", "by_host", "by_network", "denied")

    def __init__(
        self,
        acls: tuple[Acl, ...],
        everywhere: _Masks,
        by_host: dict[str | None, _Masks],
        by_network: tuple[tuple[Network, _Masks], ...] = (),
    ) -> None:
        self.acls = acls
        self.allowed, self.denied = everywhere
        """For every host, as sets of bits."""
        self.by_host = by_host
        """Beside those for every host."""
        self.by_network = by_network
        """Beside those, for every host of a network."""


_Group = dict[str, PatternRules]
"""The entries of one pattern, by principal."""
_Pattern = tuple[int, str]
"""Pattern type and resource name."""


class OfKind(NamedTuple):
    """The entries of one resource type."""

    literals: dict[str, _Group]
    prefixes: tuple[tuple[int, dict[str, _Group]], ...]
    """By the length of the prefix, the shortest first."""
    held: dict[str, dict[_Pattern, PatternRules]]
    """By principal: all the patterns that it has entries on."""

    def groups(self, name: str) -> list[_Group]:
        """The entries of every pattern that `name` matches."""
        found: list[_Group] = []
        literals, size = self.literals, len(name)
        if (group := literals.get(name)) is not None:
            found.append(group)
        if name != WILDCARD and (group := literals.get(WILDCARD)) is not None:
            found.append(group)
        for length, named in self.prefixes:
            if length > size:
                break
            if (group := named.get(name[:length])) is not None:
                found.append(group)
        return found


_NONE: Final = OfKind({}, (), {})


class AclIndex:
    """Entries, by resource type, pattern and principal."""

    __slots__ = ("_kinds", "size")

    def __init__(self, kinds: Mapping[int, OfKind] | None = None, size: int = 0) -> None:
        self._kinds = kinds or {}
        self.size = size
        """Number of entries."""

    def changed(self, *, added: Iterable[Acl] = (), removed: Iterable[Acl] = ()) -> "AclIndex":
        """The index with some entries more and some less. An entry that was added twice is removed one at a time."""
        changes: dict[int, dict[_Pattern, dict[str, tuple[list[Acl], list[Acl]]]]] = {}
        size = self.size
        for number, acls in enumerate((added, removed)):
            for acl in acls:
                size += -1 if number else 1
                of_kind = changes.setdefault(acl.resource_type, {})
                of_pattern = of_kind.setdefault((acl.pattern_type, acl.resource_name), defaultdict(lambda: ([], [])))
                of_pattern[acl.principal][number].append(acl)
        if not changes:
            return self
        kinds = dict(self._kinds)
        for kind, of_kind in changes.items():
            kinds[kind] = _changed(kinds.get(kind, _NONE), of_kind)
        return AclIndex(kinds, size)

    def permitted(self, kind: int, name: str, principal: str, host: str | None) -> int | None:
        """The operations that `principal` may do on the resource from `host` (a `host_key`), as a set of bits; None if
        no entry is about this resource, whoever its principal."""
        of_kind = self._kinds.get(kind)
        if of_kind is None:
            return None
        groups = of_kind.groups(name)
        if not groups:
            return None
        allowed = denied = 0
        for who in (principal, EVERYBODY):
            for group in groups:
                rules = group.get(who)
                if rules is not None:
                    allowed |= rules.allowed
                    denied |= rules.denied
                    if rules.by_host and (masks := rules.by_host.get(host)) is not None:
                        allowed |= masks[0]
                        denied |= masks[1]
                    for network, masks in rules.by_network:
                        if _is_in(network, host):
                            allowed |= masks[0]
                            denied |= masks[1]
        return allowed & ~denied

    def permits_any(self, kind: int, operation: int, principal: str, host: str | None) -> bool:
        """True if `principal` may do this to at least one possible name (security.md 4.3.5)."""
        of_kind = self._kinds.get(kind, _NONE)
        allowed: set[_Pattern] = set()
        denied: set[_Pattern] = set()
        exactly = (operation, Operation.ALL)
        for who in (principal, EVERYBODY):
            for pattern, rules in of_kind.held.get(who, {}).items():
                for acl in rules.acls:
                    if acl.operation in exactly and _is_at(acl, host):
                        (denied if acl.permission == Permission.DENY else allowed).add(pattern)
        everything = (int(PatternType.LITERAL), WILDCARD)
        if everything in denied:
            return False
        return any(pattern == everything or not _is_dominated(pattern, denied) for pattern in allowed)

    def about(self, kind: int, name: str) -> Iterator[Acl]:
        """The entries about one resource, of everybody."""
        for group in self._kinds.get(kind, _NONE).groups(name):
            for rules in group.values():
                yield from rules.acls

    def deciding(self, kind: int, name: str, operation: int, principal: str, host: str | None) -> Acl | None:
        """The entry that allows or denies this; None where none does. A denial goes before whatever allows."""
        allowing: Acl | None = None
        for group in self._kinds.get(kind, _NONE).groups(name):
            for who in (principal, EVERYBODY):
                for acl in () if (rules := group.get(who)) is None else rules.acls:
                    if not _is_at(acl, host) or not _bits(acl) >> operation & 1:
                        continue
                    if acl.permission == Permission.DENY:
                        return acl
                    allowing = allowing or acl
        return allowing


def _is_dominated(pattern: _Pattern, denied: set[_Pattern]) -> bool:
    """True if a denial covers all that a pattern allows."""
    kind, name = pattern
    if kind == PatternType.LITERAL and pattern in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def _is_at(acl: Acl, host: str | None) -> bool:
    """True if an entry is about peers at `host`; None is an unknown address."""
    place = host_key(acl.host)
    if place is not None:
        return place in (WILDCARD, host)
    network = network_of(acl.host)
    return network is not None and _is_in(network, host)


def _bits(acl: Acl) -> int:
    """The operations that an entry allows or denies; a denial implies none but ALL."""
    operation = acl.operation
    if acl.permission == Permission.DENY and operation != Operation.ALL:
        return 1 << operation
    return _IMPLIED.get(operation, 1 << operation)


def _changed(of_kind: OfKind, changes: Mapping[_Pattern, Mapping[str, tuple[list[Acl], list[Acl]]]]) -> OfKind:
    literals, prefixes, held = dict(of_kind.literals), dict(of_kind.prefixes), dict(of_kind.held)
    own_prefixes: set[int] = set()
    own_principals: set[str] = set()
    for pattern, by_principal in changes.items():
        pattern_type, name = pattern
        if pattern_type == PatternType.PREFIXED:
            if len(name) not in own_prefixes:
                own_prefixes.add(len(name))
                prefixes[len(name)] = dict(prefixes.get(len(name), {}))
            named = prefixes[len(name)]
        else:
            named = literals
        group = dict(named.get(name, {}))
        for principal, (added, removed) in by_principal.items():
            if principal not in own_principals:
                own_principals.add(principal)
                held[principal] = dict(held.get(principal, {}))
            rules = _with(group.get(principal), added, removed)
            if rules is None:
                group.pop(principal, None)
                held[principal].pop(pattern, None)
            else:
                group[principal] = held[principal][pattern] = rules
        if group:
            named[name] = group
        else:
            named.pop(name, None)
    left = tuple(sorted((length, named) for length, named in prefixes.items() if named))
    held = {principal: patterns for principal, patterns in held.items() if patterns}
    return OfKind(literals, left, held)


def _with(rules: PatternRules | None, added: list[Acl], removed: list[Acl]) -> PatternRules | None:
    acls = [*(rules.acls if rules is not None else ()), *added]
    if removed:
        acls = _without(acls, removed)
    if not acls:
        return None
    by_host: dict[str | None, _Masks] = {}
    by_network: dict[Network, _Masks] = {}
    for acl in acls:
        place = host_key(acl.host)
        if place is not None:
            by_host[place] = _more(by_host.get(place, (0, 0)), acl)
        elif (network := network_of(acl.host)) is not None:
            by_network[network] = _more(by_network.get(network, (0, 0)), acl)
    return PatternRules(tuple(acls), by_host.pop(WILDCARD, (0, 0)), by_host, tuple(by_network.items()))


def _more(masks: _Masks, acl: Acl) -> _Masks:
    allowed, denied = masks
    return (allowed, denied | _bits(acl)) if acl.permission == Permission.DENY else (allowed | _bits(acl), denied)


def _without(acls: list[Acl], removed: list[Acl]) -> list[Acl]:
    times = Counter(removed)
    left = []
    for acl in acls:
        if times[acl]:
            times[acl] -= 1
        else:
            left.append(acl)
    return left


REMEMBERED_HOST_CHARS: Final = 64
"""Longer texts are not remembered: they are no addresses, but any number of entries may name them."""


def host_key(text: str) -> str | None:
    """A host as it is compared: `*`, or an address in one spelling; None for what is no address, which no peer has
    (security.md 4.3.6)."""
    return remembered_key(text) if len(text) <= REMEMBERED_HOST_CHARS else remembered_key.__wrapped__(text)


@lru_cache(maxsize=10_000)
def remembered_key(text: str) -> str | None:
    """The same of a short text."""
    if text == WILDCARD:
        return WILDCARD
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def network_of(text: str) -> Network | None:
    """The network that a host of an entry stands for, as `10.0.0.0/8`; None for what is none (security.md 4.3.6). Bits
    behind the prefix count for nothing."""
    return _network(text) if "/" in text and len(text) <= REMEMBERED_HOST_CHARS else None


def is_about_nobody(host: str) -> bool:
    """True if the host of an entry is neither `*` nor an address nor a network: no peer is there."""
    return host_key(host) is None and network_of(host) is None


@lru_cache(maxsize=10_000)
def _network(text: str) -> Network | None:
    prefix = text.partition("/")[2]
    if not (prefix.isascii() and prefix.isdecimal()):
        return None  # a mask in four numbers, which Apache Kafka does not take either
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _is_in(network: Network, host: str | None) -> bool:
    """True if a `host_key` is an address of the network."""
    return host is not None and host != WILDCARD and _address(host) in network


@lru_cache(maxsize=10_000)
def _address(host: str) -> IPv4Address | IPv6Address:
    return ip_address(host)
