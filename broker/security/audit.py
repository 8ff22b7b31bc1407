"""The audit log, logger `eosin.audit`: who did something that another may ask about later (security.md 4.9).

Never limited, so only what changes rights or data of others belongs here. What peers sent is escaped, so that none of
them can forge a line.
"""

import logging
from typing import Any, Final

from eosin.network.api import RequestContext
from eosin.runtime.logging_format import fields

log: Final = logging.getLogger("eosin.audit")

MAX_VALUE_CHARS: Final = 256
"""Of a value that a peer sent."""


def shown(value: object) -> str:
    """A value as lines may hold it: without line breaks and other control characters, of a bounded length."""
    text = str(value)
    if len(text) > MAX_VALUE_CHARS:
        text = text[:MAX_VALUE_CHARS] + "..."
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def note(event: str, context: RequestContext, *, level: int = logging.INFO, **facts: object) -> None:
    """One line about `event`, with the actor and its address."""
    if not log.isEnabledFor(level):
        return
    told: dict[str, Any] = {name: shown(value) for name, value in facts.items()}
    told["principal"] = shown(context.session.principal)
    told["host"] = context.client_host.removeprefix("/")
    told["listener"] = context.listener
    told["client_id"] = shown(context.client_id)
    log.log(level, event, extra=fields(**told))
