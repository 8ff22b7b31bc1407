"""The audit log, logger `eosin.audit`: who did something that another may ask about later (security.md 4.9).

Never limited, so only what changes rights or data of others belongs here. What peers sent is escaped, so that none of
them can forge a line.
"""

import logging
from typing import Any, Final

from eosin.network.api import RequestContext
from eosin.runtime.logging_format import fields, shown

log: Final = logging.getLogger("eosin.audit")


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
