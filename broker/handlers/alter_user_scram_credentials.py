"""AlterUserScramCredentials (key 51), version 0: set and delete the SCRAM credentials of users (KIP-554).

Answers once the changes are durable; those of one request are durable together. What it carries is as good as a
password, so a connection that others can read is refused (security.md 4.1.3).
"""

from collections.abc import Sequence
from typing import Final

from eosin.broker.services import Services
from eosin.model.credentials import CredentialChange, Credentials
from eosin.model.resources import Operation
from eosin.network import audit
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import refused
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from eosin.security.access import Access, on_the_cluster
from eosin.security.session import Session

MOST_PER_REQUEST: Final = 1000
"""Each takes two signatures, and all of a request are durable together."""


async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext, services: Services
) -> AlterUserScramCredentialsResponse:
    from eosin.broker.security.user_changes import CredentialDecision, decide
    from eosin.security.sasl.lookup import MECHANISMS

    if _is_overheard(context.session) and not services.config.eosin_allow_cleartext_passwords:
        return _all(request, ErrorCode.INVALID_REQUEST, "Passwords are not taken over a connection without TLS")
    if len(request.deletions) + len(request.upsertions) > MOST_PER_REQUEST:
        response: AlterUserScramCredentialsResponse = await refused(
            _too_many, request, context, ErrorCode.INVALID_REQUEST
        )
        return response
    decision = CredentialDecision((), {})

    def changes(credentials: Credentials) -> Sequence[CredentialChange]:
        nonlocal decision
        decision = decide(request, credentials)
        return decision.changes

    outcome = await services.cluster.alter_credentials(changes)
    if outcome.error is not ErrorCode.NONE:
        return _all(request, outcome.error, outcome.message)
    for change in decision.changes:
        event = "a user's credential was deleted" if change.credential is None else "a user's credential was set"
        audit.note(event, context, user=change.user, mechanism=MECHANISMS[change.mechanism])
    return AlterUserScramCredentialsResponse(
        results=tuple(
            AlterUserScramCredentialsResult(user)
            if refusal is None
            else AlterUserScramCredentialsResult(user, refusal.error, refusal.message)
            for user, refusal in decision.answers.items()
        )
    )


def _too_many(
    request: AlterUserScramCredentialsRequest, context: RequestContext, error: ErrorCode
) -> AlterUserScramCredentialsResponse:
    return _all(request, error, f"A request may change {MOST_PER_REQUEST} credentials")


def _is_overheard(session: Session) -> bool:
    """True if others may read what this peer sends."""
    from ipaddress import ip_address

    if session.security_protocol.is_encrypted:
        return False
    try:
        return not ip_address(session.host).is_loopback
    except ValueError:
        return True


def _all(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([*(each.name for each in request.deletions), *(each.name for each in request.upsertions)])
    return AlterUserScramCredentialsResponse(
        results=tuple(AlterUserScramCredentialsResult(each, error, message) for each in users)
    )


def refuse(
    request: AlterUserScramCredentialsRequest, context: RequestContext, error: ErrorCode
) -> AlterUserScramCredentialsResponse:
    return _all(request, error, None)


API = Api(
    key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    versions=range(0, 1),
    handle=handle,
    refuse=refuse,
    access=Access((on_the_cluster(Operation.ALTER),)),
)
