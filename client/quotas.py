"""Quotas of users, client ids and addresses (KIP-546), of any Kafka cluster."""

from collections.abc import Mapping
from typing import Final

from eosin.client.client import Client
from eosin.client.errors import check
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import alter_client_quotas as altering
from eosin.protocol.schemas import describe_client_quotas as describing

Entity = Mapping[str, str | None]
"""The owner of quotas: names by type (`user`, `client-id`, `ip`), None for the default of a type."""

_EXACT: Final = 0
_DEFAULT: Final = 1


class QuotaAdmin:
    """Asks for quotas and changes them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def describe(self, entity: Entity) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        """Entities with their quotas: those that the names match, or all without names. Raises a ClientError."""
        components = tuple(
            describing.ComponentData(kind, _DEFAULT if name is None else _EXACT, name) for kind, name in entity.items()
        )
        response: describing.DescribeClientQuotasResponse = await self._client.request(
            ApiKey.DESCRIBE_CLIENT_QUOTAS, describing.DescribeClientQuotasRequest(components)
        )
        check(response.error_code, "asking for quotas", response.error_message)
        found = [
            (
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in response.entries or ()
        ]
        return sorted(found, key=lambda each: [(kind, name or "") for kind, name in each[0].items()])

    async def alter(self, entity: Entity, quotas: Mapping[str, float | None]) -> None:
        """Set quotas of one entity, or remove those that are None: all or nothing. Raises a ClientError."""
        ops = (altering.OpData(key, 0.0 if value is None else value, value is None) for key, value in quotas.items())
        entry = altering.RequestEntryData(
            tuple(altering.EntityData(kind, name) for kind, name in entity.items()), tuple(ops)
        )
        response: altering.AlterClientQuotasResponse = await self._client.request(
            ApiKey.ALTER_CLIENT_QUOTAS, altering.AlterClientQuotasRequest((entry,))
        )
        for each in response.entries:
            check(each.error_code, "changing quotas", each.error_message)
