"""The history as a person reads it: one line for each request with what became of it, one for each decision. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from eosin.lab.history.occurrences import ANSWERED, ASKED, CLOSED, CONNECTED, EXECUTED, LOST, Occurrence, SeenRequest
from eosin.lab.history.reading import requests_in

_NS_PER_MS: Final = 1_000_000
_JUMP_MS: Final = 500
"""More than clocks differ by themselves between two events."""
QUIET: Final = frozenset(
    {
        "ApiVersions",
        "ConsumerGroupHeartbeat",
        "Fetch",
        "FindCoordinator",
        "Heartbeat",
        "ListOffsets",
        "Metadata",
        "OffsetForLeaderEpoch",
        "ShareFetch",
        "ShareGroupHeartbeat",
        "StreamsGroupHeartbeat",
    }
)
"""Requests that a reader rarely wants to see, unless something went wrong with them."""


def transcript(events: Iterable[Occurrence], *, everything: bool = False) -> list[str]:
    """The lines, in the order in which things began. Quiet requests are left out unless one asks for everything."""
    chosen = list(events)
    requests = {each.number: each for each in requests_in(chosen)}
    lines = []
    ahead_ms: int | None = None
    for each in chosen:
        before, ahead_ms = ahead_ms, each.now_ms - each.at_ns // _NS_PER_MS
        if before is not None and abs(ahead_ms - before) > _JUMP_MS:
            lines.append(f"{_at(each.at_ns)}  the broker's clock was moved by {(ahead_ms - before) / 1000:.1f} s")
        if each.what == ASKED:
            request = requests[each.number]
            if everything or not _is_quiet(request):
                lines.append(line_of(request))
        elif each.request not in requests and (everything or each.what not in (CONNECTED, CLOSED, ANSWERED)):
            lines.append(_decision(each))
    return lines


def _is_quiet(request: SeenRequest) -> bool:
    is_fine = request.fate in (ANSWERED, "") and request.code in ("NONE", "")
    return request.api in QUIET and is_fine and not request.rule


def line_of(request: SeenRequest) -> str:
    """A request: `+12.4 ms  #3 invoicing-1 (librdkafka 2.16)  EndTxn v1 commit epoch 4  ->  NONE after 1.2 ms`."""
    about = [request.api, f"v{request.version}", *_subject(request)]
    return f"{_at(request.asked_ns)}  {request.link or ''}  {' '.join(about)}  ->  {_end(request)}"


def _subject(each: SeenRequest | Occurrence) -> Sequence[str]:
    is_named_by_client = each.link is not None and each.link.client_id == each.transactional_id
    return [
        *([each.transactional_id] if each.transactional_id and not is_named_by_client else []),
        *([f"group {each.group}"] if each.group else []),
        *map(str, each.partitions),
        *([each.detail] if each.detail else []),
    ]


def _end(request: SeenRequest) -> str:
    steps = [*request.steps]
    duration_us = request.duration_us
    if duration_us is None:
        steps.append("not answered yet")
    elif request.fate == LOST:
        steps.append("answer lost" if EXECUTED in steps else "lost")
    else:
        steps.append(f"{request.code or 'no response'} after {duration_us / 1000:.1f} ms")
    rule = f" (rule {request.rule})" if request.rule else ""
    return f"{', '.join(steps)}{rule}"


def _decision(each: Occurrence) -> str:
    words = [each.what, each.code if each.code not in ("", "NONE") else "", *_subject(each)]
    who = f"{each.link}  " if each.link is not None else ""
    rule = f" (rule {each.rule})" if each.rule else ""
    return f"{_at(each.at_ns)}  {who}{' '.join(filter(None, words))}{rule}"


def _at(at_ns: int) -> str:
    return f"+{at_ns / _NS_PER_MS:.1f} ms"
