"""The names of a cluster's topics, groups and transactional ids, for a shell that completes one."""

import asyncio
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from eosin.cli.common.remote_commands import CLIENT_ID
from eosin.cli.common.security_options import security_of
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import ClientError
from eosin.client.groups import GroupAdmin
from eosin.client.transactions import TransactionAdmin

_TIMEOUT_MS: Final = 1000
"""A person waits for this."""


def names(kind: str, options: Namespace) -> list[str]:
    """The names that the cluster of these options has for things of a kind; none when it does not say so at once."""
    try:
        client = Client(
            options.bootstrap_server,
            client_id=CLIENT_ID,
            connect_timeout_ms=_TIMEOUT_MS,
            request_timeout_ms=_TIMEOUT_MS,
            retry_timeout_ms=_TIMEOUT_MS,
            security=security_of(options),
        )
        return asyncio.run(_request(client, kind))
    except (ClientError, ValueError, OSError, AttributeError):
        return []


async def _request(client: Client, kind: str) -> list[str]:
    async with client:
        await client.peer()
        return await names_of(kind, client)


async def names_of(kind: str, client: Client) -> list[str]:
    """The names that a cluster has for things of a kind. Raises a ClientError."""
    return await _NAMES[kind](client)


async def _topics(client: Client) -> list[str]:
    return sorted((await Admin(client).topics()).topics)


async def _groups(client: Client) -> list[str]:
    return [each.group_id for each in await GroupAdmin(client).list_groups()]


async def _transactional_ids(client: Client) -> list[str]:
    return [each.transactional_id for each in await TransactionAdmin(client).list_transactions()]


async def _subjects(client: Client) -> list[str]:
    found = []
    for names_of_a_kind in (_transactional_ids, _groups, _topics):
        try:
            found += await names_of_a_kind(client)
        except ClientError:  # of a broker that lists no transactions, or a user who may not see them
            continue
    return list(dict.fromkeys(found))


_NAMES: Final[Mapping[str, Callable[[Client], Awaitable[list[str]]]]] = {
    "topic": _topics,
    "group": _groups,
    "transactional id": _transactional_ids,
    "subject": _subjects,
}
