"""Renders `docs/configuration.md` from the tables of settings, so that the page cannot drift: `make docs`."""

import sys
from collections.abc import Iterable
from pathlib import Path

from eosin.settings.broker import BrokerConfig
from eosin.settings.groups import GROUP_CONFIGS, KEPT, RANGES, range_of
from eosin.settings.quorum import QUORUM_SETTINGS
from eosin.settings.settings import Setting, settings_of, value_text
from eosin.settings.topics import TOPIC_CONFIGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"

_INTRODUCTION = """\
# Configuration

Settings have Kafka's names. A setting that Kafka does not have starts with `eosin.`, or is
`transaction.timeout.recovery` or its profiles. Later sources override earlier ones: the defaults below, the properties
file of `--config FILE`, with `--environment` the variables of [Kafka's images](image.md), `--set name=value`
(repeatable), the flags of `eosin serve`. `eosin serve --print-config` prints every setting with its source.

One warning names the keys that Kafka has and Eosin does not use. An unknown key, or a value that the table does not
allow, ends the start with one sentence on stderr and exit code 2.

`make docs` writes this page from the broker's own tables.

## Broker
"""

_QUORUM = """
## Several machines

A broker with `controller.quorum.bootstrap.servers` or `controller.quorum.voters` joins their cluster
([several machines](cluster.md)). It needs `node.id` and `controller.listener.names`, too.
`eosin.transaction.version` is refused, because the cluster decides it. Three settings above have Kafka's defaults:
`offsets.topic.replication.factor` and `transaction.state.log.replication.factor` 3, `transaction.state.log.min.isr` 2.
A broker that runs alone does not use the settings below.
"""

_TOPICS = """
## Topics

CreateTopics or AlterConfigs set these for a topic. Otherwise the broker setting in the last column gives the default.
"""

_GROUPS = """
## Groups

Settings of a single consumer group (KIP-848), share group (KIP-932) or streams group (KIP-1071), which need not exist:
`eosin configs alter --group readers --set consumer.session.timeout.ms=50000`, or `kafka-configs.sh --entity-type
groups`. Members hear of another heartbeat interval at their next heartbeat. The broker's setting in the last column
gives the default, its `.min.` and `.max.` settings the range; a value outside of a range that was narrowed later counts
as its end. The session must be longer than the interval.
"""

_KEPT_FOR_GROUPS = """
These are accepted in Kafka's default ranges, kept and shown, and have no effect: Eosin has one assignor
of streams groups.
"""


def _text(value: object) -> str:
    text = value_text(value)
    return "" if text is None else f"`{text}`" if text else "(empty)"


def _broker_rows(settings: Iterable[Setting]) -> Iterable[str]:
    yield "| setting | default | allowed | meaning |"
    yield "|---|---|---|---|"
    for each in settings:
        yield f"| `{each.name}` | {_text(each.default)} | {each.allowed()} | {each.doc} |"


def _topic_rows(settings: Iterable[Setting]) -> Iterable[str]:
    yield "| config | default | allowed | meaning | broker setting |"
    yield "|---|---|---|---|---|"
    for each in settings:
        synonyms = ", ".join(f"`{synonym.name}`" for synonym in each.synonyms)
        yield f"| `{each.name}` | {_text(each.default)} | {each.allowed()} | {each.doc} | {synonyms} |"


def _group_rows() -> Iterable[str]:
    yield "| config | default | allowed | meaning | broker setting |"
    yield "|---|---|---|---|---|"
    for each in GROUP_CONFIGS.values():
        if each.name in KEPT:
            continue
        allowed = each.allowed()
        if each.name in RANGES:
            lowest, highest = range_of(each.name, BrokerConfig())
            allowed += f" from {lowest} to {highest}"
        synonyms = ", ".join(f"`{synonym.name}`" for synonym in each.synonyms)
        yield f"| `{each.name}` | {_text(each.default)} | {allowed} | {each.doc} | {synonyms} |"


def _kept_rows() -> Iterable[str]:
    yield "| config | default | allowed |"
    yield "|---|---|---|"
    for each in GROUP_CONFIGS.values():
        if each.name in KEPT:
            yield f"| `{each.name}` | {_text(each.default)} | {each.allowed()} |"


def page() -> str:
    """The whole page."""
    alone = [each for each in settings_of(BrokerConfig).values() if each.name not in QUORUM_SETTINGS]
    broker, quorum = "\n".join(_broker_rows(alone)), "\n".join(_broker_rows(QUORUM_SETTINGS.values()))
    topics = "\n".join(_topic_rows(TOPIC_CONFIGS.values()))
    groups, kept = "\n".join(_group_rows()), "\n".join(_kept_rows())
    return (
        f"{_INTRODUCTION}\n{broker}\n{_QUORUM}\n{quorum}\n{_TOPICS}\n{topics}\n"
        f"{_GROUPS}\n{groups}\n{_KEPT_FOR_GROUPS}\n{kept}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}", file=sys.stderr)
