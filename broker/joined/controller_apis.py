"""APIs that only a broker of several machines has: what there is to change or to ask of its controllers, beyond what a
broker alone serves too (cluster.md 5.1).

`Forwarding` passes each on to the active controller. Delegation tokens are the exception: a broker refuses them itself,
as one of Apache Kafka does that has no `delegation.token.secret.key`. Nobody could log in to Eosin with one.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from eosin.broker.services import Services
from eosin.model.principals import ANONYMOUS
from eosin.model.resources import Operation
from eosin.network.api import Api, Refuse, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.add_raft_voter import AddRaftVoterResponse
from eosin.protocol.schemas.create_delegation_token import CreateDelegationTokenResponse
from eosin.protocol.schemas.describe_delegation_token import DescribeDelegationTokenResponse
from eosin.protocol.schemas.expire_delegation_token import ExpireDelegationTokenResponse
from eosin.protocol.schemas.remove_raft_voter import RemoveRaftVoterResponse
from eosin.protocol.schemas.renew_delegation_token import RenewDelegationTokenResponse
from eosin.protocol.schemas.unregister_broker import UnregisterBrokerResponse
from eosin.protocol.schemas.unregister_controller import UnregisterControllerResponse
from eosin.protocol.types import Message
from eosin.security.access import Access, on_the_cluster, open_to_all


def _all_fails(response: type[Message]) -> Refuse:
    """A response whose one error code is that of everything."""

    def refuse(request: Any, context: RequestContext, error: ErrorCode) -> Any:
        return response(error_code=error)

    return refuse


async def _passed_on(request: Any, context: RequestContext, services: Services) -> NoReturn:
    raise AssertionError("Forwarding puts its own handler in this place")


def _passes_on(key: ApiKey, versions: range, refuse: Refuse) -> Api:
    access = Access((on_the_cluster(Operation.ALTER),))
    return Api(key=key, versions=versions, handle=_passed_on, refuse=refuse, access=access)


def _has_no_tokens(key: ApiKey, versions: range, response: type[Message]) -> Api:
    refuse = _all_fails(response)

    def respond(request: Any, context: RequestContext, services: Services) -> Any:
        session = context.session
        has_identity = session.security_protocol.has_sasl or session.principal != ANONYMOUS
        no = (
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED if has_identity else ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        )
        return refuse(request, context, no)

    access = open_to_all("it is refused, whoever asks")
    return Api(key=key, versions=versions, respond=respond, refuse=refuse, access=access)


_APIS: Final = (
    _passes_on(ApiKey.UNREGISTER_BROKER, range(0, 1), _all_fails(UnregisterBrokerResponse)),
    _passes_on(ApiKey.UNREGISTER_CONTROLLER, range(0, 1), _all_fails(UnregisterControllerResponse)),
    _passes_on(ApiKey.ADD_RAFT_VOTER, range(0, 2), _all_fails(AddRaftVoterResponse)),
    _passes_on(ApiKey.REMOVE_RAFT_VOTER, range(0, 1), _all_fails(RemoveRaftVoterResponse)),
    _has_no_tokens(ApiKey.CREATE_DELEGATION_TOKEN, range(1, 4), CreateDelegationTokenResponse),
    _has_no_tokens(ApiKey.RENEW_DELEGATION_TOKEN, range(1, 3), RenewDelegationTokenResponse),
    _has_no_tokens(ApiKey.EXPIRE_DELEGATION_TOKEN, range(1, 3), ExpireDelegationTokenResponse),
    _has_no_tokens(ApiKey.DESCRIBE_DELEGATION_TOKEN, range(1, 4), DescribeDelegationTokenResponse),
)

CONTROLLER_APIS: Final[Mapping[int, Api]] = {int(api.key): api for api in _APIS}
