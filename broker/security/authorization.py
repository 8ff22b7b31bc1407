"""Puts an authorizer together: imported only by a broker whose `authorizer.class.name` asks for one."""

from typing import TYPE_CHECKING

from eosin.model.resources import Operation, ResourceType
from eosin.security.authorizer import AccessDecision, StandardAuthorizer
from eosin.security.decision_log import LoggedDecisions

if TYPE_CHECKING:
    from eosin.model.acl_entries import AclEntries
    from eosin.runtime.clock import Clock
    from eosin.settings.broker import BrokerConfig


def authorizer_of(config: "BrokerConfig", acls: "AclEntries", clock: "Clock") -> StandardAuthorizer:
    """The authorizer that the settings ask for; it follows `acls` from now on."""

    def explain(operation: Operation, kind: ResourceType, name: str, principal: str, host: str) -> AccessDecision:
        return authorizer.decision(operation, kind, name, principal=principal, host=host)

    authorizer = StandardAuthorizer(
        super_users=config.super_principals,
        allow_everyone=config.allow_everyone_if_no_acl_found,
        log=LoggedDecisions(clock, explain),
    )
    acls.follow(lambda added, removed: authorizer.change(added=added, removed=removed))
    return authorizer
