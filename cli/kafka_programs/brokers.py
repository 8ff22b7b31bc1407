"""kafka-broker-api-versions and kafka-cluster, which health checks call; cub and its like, which wait for brokers.

They ask for what one broker says of itself over one connection, since some run each second.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from eosin.cli.common.remote_commands import NotThere
from eosin.cli.kafka_programs.queries import Unanswerable, query
from eosin.cli.kafka_programs.words import parse_words
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.protocol.keys import ApiKey
from eosin.runtime.version import VERSION

_BETWEEN_S: Final = 1.0


def api_versions(arguments: Sequence[str]) -> int:
    """Print the APIs of each broker, as far as this client knows them. Raises Unanswerable."""
    words = parse_words(arguments)
    if words.has("version"):
        print(VERSION)
        return 0

    async def question(client: Client) -> Sequence[str]:
        served = (await client.peer()).versions
        found = {key: served.served(key) for key in ApiKey}
        apis = [f"\t{_camel(key)}({key.value}): {each[0]} to {each[1]}" for key, each in found.items() if each]
        lines = []
        for broker in (await Admin(client).describe_cluster()).brokers:
            about = f"(id: {broker.broker_id} rack: {broker.rack or 'null'} isFenced: false)"
            lines.append(f"{broker.host}:{broker.port} {about} -> (")
            lines += [*(f"{line}," for line in apis[:-1]), *apis[-1:], ")"]
        return lines

    return query("kafka-broker-api-versions", words, question)


def cluster(arguments: Sequence[str]) -> int:
    """Print the cluster's id. Raises Unanswerable."""
    words = parse_words(arguments)
    if words.rest[:1] != ["cluster-id"]:
        raise Unanswerable("only cluster-id is there: eosin cluster describes brokers")

    async def question(client: Client) -> Sequence[str]:
        return [f"Cluster ID: {(await Admin(client).describe_cluster()).cluster_id}"]

    return query("kafka-cluster", words, question)


def confluents_waiting(arguments: Sequence[str]) -> int:
    """cub and ub: `kafka-ready -b SERVER BROKERS SECONDS` waits for that many brokers; what is about ZooKeeper and the
    image's own files is done at once. Raises Unanswerable."""
    action, *rest = arguments or [""]
    if action in ("zk-ready", "ensure", "ensure-atleast-one", "path", "listeners", "render-template", "wait"):
        return 0
    if action != "kafka-ready":
        raise Unanswerable(f"there is no {action!r}; kafka-ready waits for brokers")
    words = parse_words(rest)
    numbers = [each for each in words.rest if each.isdigit()]
    wanted, limit_s = (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else (1, 60)

    async def question(client: Client) -> Sequence[str]:
        found = len((await Admin(client).describe_cluster()).brokers)
        if found < wanted:
            raise NotThere(f"{found} of {wanted} brokers are there")
        return []

    return asyncio.run(_until(limit_s, lambda: query("cub", words, question, timeout_s=max(1, min(10, limit_s)))))


async def _until(limit_s: int, attempt: Callable[[], int]) -> int:
    """Try each second, until it succeeds or so many have gone; the exit code."""
    for second in range(max(1, limit_s)):
        if second:
            await asyncio.sleep(_BETWEEN_S)
        if not await asyncio.to_thread(attempt):
            return 0
    return 1


def _camel(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))
