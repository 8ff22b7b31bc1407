"""kafka-configs: settings of topics and brokers, and passwords of users."""

import os
import re
from collections.abc import Sequence
from typing import Final

from eosin.cli.image.advertised import KEY, change_advertised
from eosin.cli.kafka_programs.queries import Unanswerable, query
from eosin.cli.kafka_programs.words import Words, parse_words
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.protocol.config_resources import ConfigResourceType
from eosin.settings.settings import SettingError

PROGRAM: Final = "kafka-configs"
_ENTRY: Final = re.compile(r"\s*([^=,\s]+)=(\[[^\]]*\]|[^,]*)\s*(?:,|$)")
_KINDS: Final = {
    "topics": ConfigResourceType.TOPIC,
    "topic": ConfigResourceType.TOPIC,
    "brokers": ConfigResourceType.BROKER,
    "broker": ConfigResourceType.BROKER,
}


def main(arguments: Sequence[str]) -> int:
    """Run the program; returns its exit code. Raises Unanswerable."""
    words = parse_words(arguments, flags=("entity-default", "broker-defaults"))
    kind, name = _entity(words)
    if words.has("describe"):
        return query(PROGRAM, words, lambda client: _describe(client, words, kind, name))
    if not words.has("alter"):
        raise Unanswerable("give --describe or --alter")
    if kind == "users":
        return _alter_user(words, name)
    resource = _resource(kind)
    changes: dict[str, str | None] = {key: value.strip("[]") for key, value in entries(words.one("add-config"))}
    changes |= dict.fromkeys(each.strip() for each in words.one("delete-config").split(",") if each.strip())
    if resource is ConfigResourceType.BROKER and (told := changes.pop(KEY, None)) is not None:
        _advertise(told)
        if not changes:
            print(f"Completed updating config for broker {name}.")
            return 0

    async def question(client: Client) -> Sequence[str]:
        await Admin(client).alter_configs(name, changes, kind=resource)
        return [f"Completed updating config for {kind.removesuffix('s')} {name}."]

    return query(PROGRAM, words, question)


def entries(text: str) -> list[tuple[str, str]]:
    """The settings of --add-config, separated by commas, of which none within brackets counts."""
    return [(found[1], found[2]) for found in _ENTRY.finditer(text)]


def _advertise(listeners: str) -> None:
    """Give the broker of this container other addresses for clients. Raises Unanswerable."""
    try:
        is_done = change_advertised(listeners, os.environ)
    except SettingError as refused:
        raise Unanswerable(str(refused)) from None
    if not is_done:
        raise Unanswerable(f"{KEY} can be changed by a program of the container of a broker that runs alone")


async def _describe(client: Client, words: Words, kind: str, name: str) -> Sequence[str]:
    if kind == "users":
        from eosin.client.users import UserAdmin

        users = await UserAdmin(client).describe(name or None)
        return [f"SCRAM credential configs for user-principal '{each.user}' are there" for each in users]
    configs = await Admin(client).describe_configs(name, kind=_resource(kind))
    own = [each for each in configs.values() if words.has("all") or each.config_source not in (4, 5)]
    title = f"Dynamic configs for {kind.removesuffix('s')} {name} are:"
    return [title, *(f"  {each.name}={each.value} sensitive={str(each.is_sensitive).lower()}" for each in own)]


def _alter_user(words: Words, name: str) -> int:
    from eosin.broker.security.first_users import parse_first_user
    from eosin.client.users import UserAdmin
    from eosin.protocol.schemas.alter_user_scram_credentials import AlterUserScramCredentialsRequest

    try:
        users = [
            parse_first_user(f"{mechanism}=[name={name},{options.strip('[]')}]", key="--add-config")
            for mechanism, options in entries(words.one("add-config"))
        ]
    except SettingError as refused:
        raise Unanswerable(str(refused)) from None
    if not users:
        raise Unanswerable("give --add-config 'SCRAM-SHA-512=[password=...]'; eosin users deletes users")

    async def question(client: Client) -> Sequence[str]:
        request = AlterUserScramCredentialsRequest(upsertions=tuple(each.upsertion() for each in users))
        await UserAdmin(client).alter(request)
        return [f"Completed updating config for user {name}."]

    return query(PROGRAM, words, question)


def _entity(words: Words) -> tuple[str, str]:
    for kind in ("topic", "broker", "user"):
        if words.has(kind):
            return f"{kind}s", words.one(kind)
    kind = words.one("entity-type")
    if words.has("entity-default", "broker-defaults"):
        return kind or "brokers", ""
    if not kind or not (words.has("entity-name") or words.has("describe")):
        raise Unanswerable("give --entity-type and --entity-name")
    return kind, words.one("entity-name")


def _resource(kind: str) -> ConfigResourceType:
    if kind not in _KINDS:
        raise Unanswerable(f"settings of {kind} are not there: eosin quotas and eosin configs have others")
    return _KINDS[kind]
