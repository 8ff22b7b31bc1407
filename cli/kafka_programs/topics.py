"""kafka-topics: list, describe, create, alter and delete topics."""

from collections.abc import Iterator, Sequence
from typing import Final

from eosin.cli.kafka_programs.queries import Unanswerable, query
from eosin.cli.kafka_programs.words import Words, parse_words
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.metadata import TopicInfo
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import uuid_text

PROGRAM: Final = "kafka-topics"
_DEFAULT: Final = -1
_OF_THE_TOPIC: Final = 1
"""The source of a setting that is the topic's own."""


def main(arguments: Sequence[str]) -> int:
    """Run the program; returns its exit code. Raises Unanswerable."""
    words = parse_words(arguments)
    actions = [name for name in _ACTIONS if words.has(name)]
    if len(actions) != 1:
        raise Unanswerable(f"give one of {', '.join(f'--{name}' for name in _ACTIONS)}")
    action = _ACTIONS[actions[0]]
    return query(PROGRAM, words, lambda client: action(client, words))


async def _list(client: Client, words: Words) -> Sequence[str]:
    found = (await Admin(client).topics()).topics
    inside = not words.has("exclude-internal")
    return [name for name in sorted(found) if inside or not found[name].is_internal]


async def _describe(client: Client, words: Words) -> Sequence[str]:
    admin = Admin(client)
    found = (await admin.topics()).topics
    wanted = _names(words) or sorted(found)
    lines: list[str] = []
    for name in wanted:
        if name not in found:
            if words.has("if-exists"):
                continue
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist as expected")
        configs = await admin.describe_configs(name)
        own = ",".join(f"{each.name}={each.value}" for each in configs.values() if each.config_source == _OF_THE_TOPIC)
        lines += _described(found[name], own)
    return lines


def _described(topic: TopicInfo, configs: str) -> Iterator[str]:
    replicas = max((len(each.replicas) for each in topic.partitions.values()), default=0)
    yield (
        f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replicas}\tConfigs: {configs}"
    )
    for number, each in sorted(topic.partitions.items()):
        leader = "none" if each.leader < 0 else str(each.leader)
        yield (
            f"\tTopic: {topic.name}\tPartition: {number}\tLeader: {leader}\tReplicas: {_ids(each.replicas)}"
            f"\tIsr: {_ids(each.in_sync)}"
        )


async def _create(client: Client, words: Words) -> Sequence[str]:
    configs = dict(_setting(each) for each in words.all("config"))
    lines = []
    for name in _required(words):
        try:
            await Admin(client).create_topic(
                name,
                _number(words, "partitions"),
                replication_factor=_number(words, "replication-factor"),
                configs=dict(configs),
            )
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or not words.has("if-not-exists"):
                raise
        else:
            lines.append(f"Created topic {name}.")
    return lines


async def _alter(client: Client, words: Words) -> Sequence[str]:
    count = _number(words, "partitions")
    if count == _DEFAULT:
        raise Unanswerable("--alter needs --partitions; kafka-configs changes settings")
    for name in _required(words):
        await Admin(client).create_partitions(name, count)
    return []


async def _delete(client: Client, words: Words) -> Sequence[str]:
    there = (await Admin(client).topics()).topics
    names = [name for name in _required(words) if name in there or not words.has("if-exists")]
    if names:
        await Admin(client).delete_topics(names)
    return []


_ACTIONS: Final = {"list": _list, "describe": _describe, "create": _create, "alter": _alter, "delete": _delete}


def _names(words: Words) -> list[str]:
    return [name for text in words.all("topic") for name in text.split(",") if name]


def _required(words: Words) -> list[str]:
    names = _names(words)
    if not names:
        raise Unanswerable("give the topic with --topic NAME")
    return names


def _number(words: Words, name: str) -> int:
    text = words.one(name)
    if not text:
        return _DEFAULT
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise Unanswerable(f"--{name} must be a number above 0, not {text!r}")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Unanswerable(f"--config must be NAME=VALUE, not {text!r}")
    return name.strip(), value


def _ids(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))
