"""Errors in some partitions of a request: the rest of it is executed, or the answer is changed after it was."""

from dataclasses import replace as replaced
from typing import Any, Final

from msgspec.structs import replace

from eosin.lab.faults.matching import Fit
from eosin.lab.faults.topics import Key, only, partitions_in, together
from eosin.network.request_hooks import ObservedRequest
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.fetch import FetchPartition, FetchTopic

_BEFORE_SESSIONS: Final = 6
"""The last version of Fetch whose refusals name each partition."""


def refusal_of(observed: ObservedRequest, error: ErrorCode) -> Any:
    """The answer with `error` in all of a request."""
    return observed.api.refuse(observed.request, observed.context, error)


def without(observed: ObservedRequest, fit: Fit) -> Any:
    """The request without the partitions of `fit`; None if nothing is left of it. A Fetch keeps all of them, since its
    session does, and does not wait for records."""
    request = observed.request
    if observed.api.key is ApiKey.FETCH:
        return replace(request, max_wait_ms=0)
    reduced = only(request, lambda topic, partition: not fit.wants(topic, partition))
    return reduced if any(partitions_in(reduced)) else None


def merged_in_part(observed: ObservedRequest, fit: Fit, error: ErrorCode, response: Any) -> Any:
    """The answer to the reduced request, with `error` in the partitions of `fit`."""
    if observed.api.key is ApiKey.FETCH:
        return replaced_in_part(observed, fit, error, response)
    return None if response is None else together(response, _refused(observed, fit, error))


def replaced_in_part(observed: ObservedRequest, fit: Fit, error: ErrorCode, response: Any) -> Any:
    """An answer with `error` in place of what it says of the partitions of `fit`."""
    rest = only(response, lambda topic, partition: not fit.wants(topic, partition))
    return together(rest, _refused(observed, fit, error))


def _refused(observed: ObservedRequest, fit: Fit, error: ErrorCode) -> Any:
    if observed.api.key is not ApiKey.FETCH:
        return observed.api.refuse(only(observed.request, fit.wants), observed.context, error)
    context = replaced(observed.context, api_version=min(observed.context.api_version, _BEFORE_SESSIONS))
    topics: dict[Key, list[FetchPartition]] = {}
    for key, partition in sorted(fit.partitions or (), key=str):
        topics.setdefault(key, []).append(FetchPartition(partition or 0))
    named = tuple(
        FetchTopic(key, partitions=tuple(each)) if isinstance(key, str) else FetchTopic("", key, tuple(each))
        for key, each in topics.items()
    )
    return observed.api.refuse(replace(observed.request, topics=named), context, error)
