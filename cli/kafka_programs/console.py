"""kafka-console-producer and kafka-console-consumer, in the words of `eosin produce` and `eosin consume`."""

from collections.abc import Sequence
from typing import Final

from eosin.cli.kafka_programs.queries import Unanswerable, server
from eosin.cli.kafka_programs.words import Words, parse_words

_SHOWN: Final = {
    "print.partition": "partition",
    "print.offset": "offset",
    "print.timestamp": "timestamp",
    "print.headers": "headers",
    "print.key": "key",
}
"""Properties of Kafka's formatter, in the order of its lines, and the fields of `eosin consume --show`."""


def produce(arguments: Sequence[str]) -> int:
    """Write each line of standard input as a record. Raises Unanswerable."""
    from eosin.cli import produce as command

    return min(1, command.main(produce_words(parse_words(arguments))))


def consume(arguments: Sequence[str]) -> int:
    """Write the values of records to standard output. Raises Unanswerable."""
    from eosin.cli import consume as command

    return min(1, command.main(consume_words(parse_words(arguments))))


def produce_words(words: Words) -> list[str]:
    """The words of `eosin produce`. Raises Unanswerable."""
    line = [_topic(words), "--create", "--bootstrap-server", server(words), *_config(words)]
    if words.pairs.get("parse.key") == "true":
        line += ["--key-separator", words.pairs.get("key.separator", "\\t")]
    if "null.marker" in words.pairs:
        line += ["--null", words.pairs["null.marker"]]
    codec = words.one("compression-codec")
    if codec:
        line += ["--compression", codec]
    return line


def consume_words(words: Words) -> list[str]:
    """The words of `eosin consume`. Raises Unanswerable."""
    line = [_topic(words), "--bootstrap-server", server(words), *_config(words)]
    begins = words.has("from-beginning")
    if words.has("timeout-ms") and not begins:
        raise Unanswerable("--timeout-ms needs --from-beginning: it reads what is there, and ends")
    line += ["--from", words.one("offset", default="earliest" if begins else "latest")]
    if not words.has("timeout-ms"):
        line.append("--follow")
    line += _option(words, "max-messages", "--count") + _option(words, "group", "--group")
    line += _option(words, "partition", "--partition")
    line += ["--isolation", words.one("isolation-level", default="read_uncommitted")]
    shown = [field for name, field in _SHOWN.items() if words.pairs.get(name) == "true"]
    if shown:
        line += ["--show", ",".join(shown), "--separator", words.pairs.get("key.separator", "\\t")]
    return line


def _topic(words: Words) -> str:
    topic = words.one("topic") or next(iter(words.rest), "")
    if not topic:
        raise Unanswerable("give the topic with --topic NAME")
    return topic


def _config(words: Words) -> list[str]:
    return _option(words, "command-config", "--command-config") or (
        _option(words, "producer.config", "--command-config") or _option(words, "consumer.config", "--command-config")
    )


def _option(words: Words, name: str, own: str) -> list[str]:
    return [own, words.one(name)] if words.has(name) else []
