"""`guarded`: APIs that ask for the rights of a whole request before its handler runs (security.md 4.8).

Only brokers with an authorizer use them.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from eosin.network.api import Api, RequestContext
from eosin.network.many_items import refused
from eosin.protocol.errors import ErrorCode
from eosin.security.access import Check


def guarded(apis: Mapping[int, Api], *, but: Collection[int] = ()) -> Mapping[int, Api]:
    """The APIs of a broker with an authorizer: each refuses a request whose peer lacks a right for the whole of it.
    Those in `but` somebody else decides about."""
    return {key: api if key in but else _guarded(api) for key, api in apis.items()}


def _guarded(api: Api) -> Api:
    assert api.access is not None, f"{api.key.name} says which rights it asks for"
    check = api.access.of_the_request
    if check is None:
        return api
    if api.respond is not None:
        return replace(api, respond=partial(_respond, api, check))
    return replace(api, handle=partial(_handle, api, check))


def _respond(api: Api, check: Check, request: Any, context: RequestContext, services: Any) -> Any:
    error = check(request, context)
    if error is not ErrorCode.NONE:
        return api.refuse(request, context, error)
    assert api.respond is not None
    return api.respond(request, context, services)


def _handle(api: Api, check: Check, request: Any, context: RequestContext, services: Any) -> Any:
    """A coroutine that responds: the handler's own, or that of a refusal."""
    error = check(request, context)
    if error is not ErrorCode.NONE:
        return refused(api.refuse, request, context, error)
    assert api.handle is not None
    return api.handle(request, context, services)
