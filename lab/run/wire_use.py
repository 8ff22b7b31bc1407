"""`WireUse`: the APIs, their versions and the ways of the protocol that an application used, from a history. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from eosin.lab.history.occurrences import ANSWERED, ASKED, Occurrence
from eosin.lab.history.reading import requests_in
from eosin.lab.history.requests import FIRST_OF_TV2, IN_A_SESSION, READ_COMMITTED, READ_UNCOMMITTED
from eosin.lab.scenarios.scenario import OWN

WENT_ON: Final = "went on"
ABORTED: Final = "aborted"
REBUILT: Final = "rebuilt"
EXITED: Final = "exited"
CONDUCTS: Final = (WENT_ON, ABORTED, REBUILT, EXITED)
"""The ways in which an application goes through an incident: the client alone, by an abort, by another producer in the
same process, or in another process."""


class WireUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """The requests of the clients of an application, summed up."""

    clients: tuple[str, ...] = ()
    """Libraries and their versions, as they say of themselves (KIP-511)."""
    apis: dict[str, tuple[int, ...]] = {}
    """The versions of each API, the lowest first."""
    transaction_versions: tuple[int, ...] = ()
    """1, 2 or both: the protocols of its transactions (`transaction.version`)."""
    isolation: tuple[str, ...] = ()
    """`read_committed`, `read_uncommitted` or both: of its fetches."""
    has_fetch_sessions: bool = False
    """True if a fetch was one of a session (KIP-227)."""

    def __str__(self) -> str:
        versions = " and ".join(map(str, self.transaction_versions))
        words = [f"transaction version {versions}"] if versions else ["no transactions"]
        if self.isolation:
            words.append(" and ".join(self.isolation))
            words.append("fetch sessions" if self.has_fetch_sessions else "no fetch sessions")
        return ", ".join(words)


def wire_use_of(events: Iterable[Occurrence]) -> WireUse:
    """The requests in a history, summed up, but for those of the lab's own clients."""
    clients: dict[str, None] = {}
    apis: dict[str, set[int]] = {}
    ways: set[str] = set()
    for each in events:
        if each.link is not None and each.link.client_id.startswith(OWN):
            continue
        if each.link is not None and each.link.software:
            clients[each.link.software] = None
        if each.what == ASKED:
            apis.setdefault(each.api, set()).add(each.version)
            if each.api == "Fetch":
                ways.add(each.detail)
    isolations = (READ_COMMITTED, READ_UNCOMMITTED)
    return WireUse(
        tuple(clients),
        _sorted(apis),
        tuple(sorted({2 if each >= FIRST_OF_TV2 else 1 for each in apis.get("EndTxn", ())})),
        tuple(name for name in isolations if any(each.startswith(name) for each in ways)),
        any(each.endswith(IN_A_SESSION) for each in ways),
    )


def conduct_of(events: Iterable[Occurrence], *, starts: int, exits: int) -> str:
    """One of `CONDUCTS`; `starts` and `exits` are those of the application's processes."""
    if exits:
        return EXITED
    requests = requests_in(events)
    producers = [
        each
        for each in requests
        if each.api == "InitProducerId"
        and each.transactional_id
        and not each.detail
        and (each.fate, each.code) == (ANSWERED, "NONE")
    ]
    if len(producers) > starts:
        return REBUILT
    return ABORTED if any(each.api == "EndTxn" and each.detail.startswith("abort") for each in requests) else WENT_ON


def merged(uses: Iterable[WireUse]) -> WireUse:
    """All of several runs together."""
    every = list(uses)
    apis: dict[str, set[int]] = {}
    for each in every:
        for name, versions in each.apis.items():
            apis.setdefault(name, set()).update(versions)
    return WireUse(
        tuple(dict.fromkeys(client for each in every for client in each.clients)),
        _sorted(apis),
        tuple(sorted({version for each in every for version in each.transaction_versions})),
        tuple(dict.fromkeys(name for each in every for name in each.isolation)),
        any(each.has_fetch_sessions for each in every),
    )


def _sorted(apis: dict[str, set[int]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(sorted(versions)) for name, versions in sorted(apis.items())}
