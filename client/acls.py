"""Access control entries of a cluster: what an operator asks about them and changes (KIP-11, KIP-290)."""

from collections.abc import Sequence

from eosin.client.client import Client
from eosin.client.errors import check
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from eosin.protocol.schemas.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from eosin.protocol.schemas.describe_acls import DescribeAclsRequest, DescribeAclsResponse


class AclAdmin:
    """Asks any broker, which passes changes on where another decides them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, creations: Sequence[AclCreation]) -> None:
        """Add entries; one that is there already is there. Raises BrokerError for the first that is refused, after all
        were tried."""
        response: CreateAclsResponse = await self._client.request(
            ApiKey.CREATE_ACLS, CreateAclsRequest(tuple(creations))
        )
        for each in response.results:
            check(each.error_code, "adding an access control entry", each.error_message)

    async def delete(self, filters: Sequence[DeleteAclsFilter]) -> list[DeleteAclsMatchingAcl]:
        """Remove what the filters match; each entry that is gone, once. Raises BrokerError."""
        response: DeleteAclsResponse = await self._client.request(ApiKey.DELETE_ACLS, DeleteAclsRequest(tuple(filters)))
        for result in response.filter_results:
            check(result.error_code, "removing access control entries", result.error_message)
        return list(dict.fromkeys(acl for result in response.filter_results for acl in result.matching_acls))

    async def describe(self, wanted: DescribeAclsRequest) -> list[AclCreation]:
        """The entries that a filter matches. Raises BrokerError, SECURITY_DISABLED without an authorizer."""
        response: DescribeAclsResponse = await self._client.request(ApiKey.DESCRIBE_ACLS, wanted)
        check(response.error_code, "asking for the access control entries", response.error_message)
        return [
            AclCreation(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for resource in response.resources
            for acl in resource.acls
        ]
