"""The words of Kafka's tools, kcat and rpk for each command of `eosin`.

Always true: an option stands here only if it means the same, or with a sentence that gives the line to type.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from eosin.cli.translation.translation import (
    Dialect,
    Foreign,
    Table,
    Untranslatable,
    argument,
    ignored,
    option,
    refused,
    words,
)

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_SHOWN: Final = ("timestamp", "partition", "offset", "headers", "key")
"""In the order of Kafka's console consumer."""
_ENTITIES: Final = {
    "topics": "--topic",
    "brokers": "--broker",
    "broker-loggers": "--broker-logger",
    "groups": "--group",
}
_PROPERTIES: Final = "put NAME=VALUE lines into a file, and give --command-config FILE"


def _bootstrap_or_refused(text: str) -> Sequence[str]:
    """The meaning of `-X NAME=VALUE`."""
    name, _, value = text.partition("=")
    if name in ("brokers", "bootstrap.servers", "metadata.broker.list"):
        return (f"--bootstrap-server={value}",)
    raise Untranslatable(f"-X {name} is a setting of a client library: {_PROPERTIES}")


_CONNECTION: Final[Table] = {
    **dict.fromkeys(
        ("-b", "--brokers", "--broker-list", "--bootstrap-servers", "--bootstrap"), option("--bootstrap-server")
    ),
    **dict.fromkeys(
        ("-F", "--consumer.config", "--consumer-config", "--producer.config", "--producer-config", "--admin.config"),
        option("--command-config"),
    ),
    "-X": Foreign(_bootstrap_or_refused),
    "--zookeeper": refused("no ZooKeeper is asked, nor by Kafka since 4.0: give --bootstrap-server HOST:PORT"),
}

# Reading ------------------------------------------------------------------------------------------------------------


def _place(text: str) -> Sequence[str]:
    """The meaning of an offset to begin at."""
    if text in ("beginning", "start", "earliest"):
        return ("--from=earliest",)
    if text in ("end", "latest"):
        return ("--from=latest", "--follow")
    if text == ":end":
        return ()
    if _NUMBER.fullmatch(text.removeprefix("-")):
        return (f"--from={text}",)
    if text[:2] in ("s@", "e@") and _NUMBER.fullmatch(text[2:]):
        return (f"{'--from' if text[0] == 's' else '--to'}={_time(int(text[2:]))}",)
    if text.startswith("@") and _NUMBER.fullmatch(text[1:]):
        return (f"--from={_time(int(text[1:]))}",)
    if text == "stored":
        raise Untranslatable("no offsets are stored: --group GROUP begins where that group is")
    raise Untranslatable(
        f"{text!r} is no place to begin at: --from earliest, --from latest --follow, --from 100, --from -10 (the last"
        " ten), --from 15m or --from 2026-01-31T08:00"
    )


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")
    except (ValueError, OverflowError, OSError):
        raise Untranslatable(f"{timestamp_ms} is no time in milliseconds since 1970") from None


def _partitions(text: str) -> Sequence[str]:
    return [f"--partition={each}" for each in text.split(",")]


def _formatter(text: str) -> Sequence[str]:
    """The meaning of a property of Kafka's console consumer."""
    name, _, value = text.partition("=")
    what = name.removeprefix("print.")
    if name == "key.separator":
        return (f"--separator={value}",)
    if name == "null.literal":
        return (f"--null={value}",)
    if name == "print.value":
        if value == "true":
            return ()
        raise Untranslatable(r"print.value=false is spelt by a format without a value: --format '%k\n'")
    if name == "line.separator":
        raise Untranslatable(r"line.separator is spelt as the end of a format: --format '%v\0'")
    if name.startswith("print.") and what in _SHOWN:
        return (f"--show={what}",) if value == "true" else ()
    raise Untranslatable(f"property {name!r} has no counterpart: eosin consume --help lists what can be shown")


def _client_setting(text: str) -> Sequence[str]:
    """The meaning of a setting of a consumer."""
    name, _, value = text.partition("=")
    if name == "isolation.level":
        return (f"--isolation={value}",)
    if name == "auto.offset.reset":
        return _place(value)
    if name == "group.id":
        raise Untranslatable("no group is joined: --group GROUP begins where that group is, and does not move it")
    raise Untranslatable(f"{name} is a setting of a client library: {_PROPERTIES}")


def _deserializer(text: str) -> Sequence[str]:
    if text.rpartition(".")[2] in ("StringDeserializer", "ByteArrayDeserializer", "DefaultMessageFormatter"):
        return ()
    raise Untranslatable(f"{text.rpartition('.')[2]} is not run: bytes are written as they are, with --json as base64")


def _with_format(typed: Sequence[str]) -> list[str]:
    """Tell a format from `--follow` behind `-f`, since no topic has a percent sign in its name; and rpk's `--format
    json` from a format."""
    own: list[str] = []
    left = iter(typed)
    for word in left:
        if word.startswith("-f") and "%" in word:
            own.append(f"--format={word[2:]}")
        elif word == "-f":
            following = next(left, None)
            if following is not None and "%" in following:
                own.append(f"--format={following}")
            else:
                own += [word] if following is None else [word, following]
        elif word == "--format=json":
            own.append("--json")
        elif word == "--format":
            following = next(left, None)
            own += ["--json"] if following == "json" else [word] if following is None else [word, following]
        else:
            own.append(word)
    return own


def _with_one_list(own: Sequence[str]) -> list[str]:
    """Several `--show` that were translated, as one."""
    shown = {word.removeprefix("--show=") for word in own if word.startswith("--show=")}
    if len(shown) < 2 or not shown <= set(_SHOWN):
        return list(own)
    rest = [word for word in own if not word.startswith("--show=")]
    return [*rest, f"--show={','.join(name for name in _SHOWN if name in shown)}"]


_NAMES_ONLY: Final = refused("topics are named one by one: eosin consume orders invoices")
_CONSUME: Final = Dialect(
    prepare=_with_format,
    finish=_with_one_list,
    options={
        **_CONNECTION,
        **dict.fromkeys(("--topic", "-t", "--topics"), argument()),
        **dict.fromkeys(("--whitelist", "--include", "--regex", "-r"), _NAMES_ONLY),
        "--from-beginning": words("--from=earliest"),
        **dict.fromkeys(("--max-messages", "-c", "-n", "--num"), option("--count")),
        **dict.fromkeys(("--offset", "-o"), Foreign(_place)),
        **dict.fromkeys(("-p", "--partitions"), Foreign(_partitions)),
        "--isolation-level": option("--isolation"),
        "--read-committed": words("--isolation=read_committed"),
        **dict.fromkeys(("-e", "-q", "-u", "-C", "-E", "--skip-message-on-error"), words()),
        "-J": words("--json"),
        "-K": Foreign(lambda text: ("--show=key", f"--separator={text}")),
        "-Z": words("--null=NULL"),
        "-D": refused(r"what ends each record is the end of a format: --format '%v;'"),
        **dict.fromkeys(
            ("-G", "-g"), refused("no group is joined: --group GROUP begins where that group is, and does not move it")
        ),
        **dict.fromkeys(("--property", "--formatter-property"), Foreign(_formatter)),
        **dict.fromkeys(("--consumer-property", "--command-property"), Foreign(_client_setting)),
        "--timeout-ms": ignored(),
        **dict.fromkeys(("--formatter", "--key-deserializer", "--value-deserializer"), Foreign(_deserializer)),
        "-s": refused("values are written as bytes: pipe them into what decodes them"),
    },
)

# Writing ------------------------------------------------------------------------------------------------------------

_PARSES_KEYS: Final = "--parse-key"
"""Stands for parse.key=true until the separator is known."""


def _reader(text: str) -> Sequence[str]:
    """The meaning of a property of Kafka's console producer."""
    name, _, value = text.partition("=")
    if name == "parse.key":
        return (_PARSES_KEYS,) if value == "true" else ()
    if name == "key.separator":
        return (f"--key-separator={value}",)
    if name == "null.marker":
        return (f"--null={value}",)
    if name == "parse.headers":
        raise Untranslatable("headers of single records are read from JSON lines: eosin produce TOPIC --json")
    raise Untranslatable(f"property {name!r} has no counterpart: eosin produce --help lists what is read")


def _producer_setting(text: str) -> Sequence[str]:
    """The meaning of a setting of a producer."""
    name, _, value = text.partition("=")
    if name == "acks":
        return (f"--acks={_acks(value)}",)
    own = {"compression.type": "--compression", "transactional.id": "--transactional-id"}
    if name in own:
        return (f"{own[name]}={value}",)
    if name == "transaction.timeout.ms" and _NUMBER.fullmatch(value):
        return (f"--transaction-timeout={int(value) / 1000:g}",)
    if name in ("enable.idempotence", "linger.ms", "batch.size", "max.in.flight.requests.per.connection"):
        return ()
    raise Untranslatable(f"{name} is a setting of a client library: {_PROPERTIES}")


def _acks(text: str) -> str:
    if text == "0":
        raise Untranslatable("a record that nobody acknowledges is not sent: --acks 1 or --acks all")
    return "all" if text == "-1" else text


def _header(text: str) -> str:
    """NAME=VALUE, also for rpk's NAME:VALUE."""
    return text if "=" in text else text.replace(":", "=", 1)


def _with_a_separator(own: Sequence[str]) -> list[str]:
    """For parse.key=true: a tab, where no separator was given; without it a separator means nothing."""
    left = [word for word in own if word != _PARSES_KEYS]
    if len(left) < len(own) and not any(word.startswith("--key-separator") for word in left):
        left.append(r"--key-separator=\t")
    return left


_PRODUCE: Final = Dialect(
    finish=_with_a_separator,
    options={
        **_CONNECTION,
        **dict.fromkeys(("--topic", "-t"), argument()),
        "-p": option("--partition"),
        "-k": option("--key"),
        "-K": option("--key-separator"),
        **dict.fromkeys(("-z", "--compression-codec"), option("--compression")),
        "-H": option("--header", _header),
        **dict.fromkeys(("-P", "-u", "-q", "--sync", "-E"), words()),
        "-Z": words("--null="),
        "-D": refused("each line is a record: pipe it through tr first, as in tr ';' '\\n' | eosin produce orders"),
        **dict.fromkeys(
            ("-f", "--format"), refused("lines are read, not formats: --key-separator TEXT for keys, or --json")
        ),
        "-T": refused("what is written is not repeated: pipe it through tee first", has_value=False),
        **dict.fromkeys(("--property", "--reader-property"), Foreign(_reader)),
        **dict.fromkeys(("--producer-property", "--command-property"), Foreign(_producer_setting)),
        **dict.fromkeys(("-a", "--request-required-acks"), option("--acks", _acks)),
        **dict.fromkeys(("--batch-size", "--max-partition-memory-bytes", "--line-reader"), ignored()),
    },
)

# Topics -------------------------------------------------------------------------------------------------------------

_REPLICAS: Final = refused("eosin cluster describe --partitions --under-replicated shows those", has_value=False)
_TOPIC: Final[Table] = dict.fromkeys(("--topic", "-t"), argument())
_TOPICS: Final = Dialect(
    actions={f"--{name}": name for name in ("list", "create", "describe", "alter", "delete")},
    options=_CONNECTION,
    of_actions={
        "list": {
            "--topic": refused("eosin topics describe TOPIC shows one topic"),
            "--exclude-internal": words(),
            "-i": words("--internal"),
        },
        "create": {
            **_TOPIC,
            "-p": option("--partitions"),
            **dict.fromkeys(("-r", "--replicas"), option("--replication-factor")),
            **dict.fromkeys(("-c", "--topic-config"), option("--config")),
            "--replica-assignment": refused(
                "brokers place replicas themselves: --replication-factor N says how many there are"
            ),
        },
        "describe": {
            **_TOPIC,
            **dict.fromkeys(("-p", "-s", "-a", "--print-partitions", "--print-all", "--print-summary"), words()),
            **dict.fromkeys(
                (
                    "--under-replicated-partitions",
                    "--unavailable-partitions",
                    "--under-min-isr-partitions",
                    "--at-min-isr-partitions",
                ),
                _REPLICAS,
            ),
            "--topics-with-overrides": refused(
                "each topic is shown with its own settings: eosin topics describe", has_value=False
            ),
        },
        "alter": {**_TOPIC, **dict.fromkeys(("-s", "--set"), option("--config"))},
        "delete": _TOPIC,
        "delete-records": {
            **dict.fromkeys(("-t", "--topic"), argument()),
            **dict.fromkeys(("-o", "--offset"), option("--before")),
            "--offset-json-file": refused(
                "type the partitions: eosin topics delete-records orders:0,2 --before OFFSET"
            ),
        },
    },
)

# Groups -------------------------------------------------------------------------------------------------------------

_GROUP: Final[Table] = dict.fromkeys(("--group", "-g"), argument())


def _without_bare_states(typed: Sequence[str]) -> list[str]:
    """Without `--state` where no state follows: the state is always shown. That of `groups describe` has no value."""
    describes = "--describe" in typed or list(typed[:1]) == ["describe"]
    return [
        word
        for word, following in zip(typed, [*typed[1:], "-"], strict=True)
        if word not in ("--state", "--type") or not (describes or following.startswith("-"))
    ]


def _end(text: str) -> Sequence[str]:
    """The meaning of rpk's `--to`."""
    ends = {"start": "--to-earliest", "end": "--to-latest"}
    if text in ends:
        return (ends[text],)
    if _NUMBER.fullmatch(text):
        return (f"--to-datetime={_time(int(text) * (1000 if len(text) < 12 else 1))}",)
    raise Untranslatable(f"{text!r} is no place: --to-earliest, --to-latest, --to-offset N or --to-datetime TIME")


_FEATURE: Final[Table] = {"--feature": argument()}

_GROUPS: Final = Dialect(
    prepare=_without_bare_states,
    actions={f"--{name}": name for name in ("list", "describe", "delete", "reset-offsets", "delete-offsets")},
    options=_CONNECTION,
    of_actions={
        "describe": {**_GROUP, **dict.fromkeys(("--all-groups", "--offsets", "--verbose", "-v", "-l"), words())},
        "delete": {
            **_GROUP,
            "--all-groups": refused("groups are deleted by name: eosin groups delete GROUP GROUP", has_value=False),
        },
        "reset-offsets": {
            **_GROUP,
            "--to": Foreign(_end),
            "--topics": option("--topic"),
            "--all-groups": refused("one group is moved at a time: eosin groups reset-offsets GROUP", has_value=False),
            "--export": refused(
                "eosin groups reset-offsets GROUP --all-topics --to-current --json prints the positions",
                has_value=False,
            ),
        },
        "delete-offsets": _GROUP,
    },
)

# Settings and rights --------------------------------------------------------------------------------------------------


def _of_entity(typed: Sequence[str]) -> list[str]:
    """`--entity-type T --entity-name N` as one own option."""
    own, kinds, name, is_default = [], [], None, False
    left = iter(typed)
    for word in left:
        key, equals, value = word.partition("=")
        if key == "--entity-type":
            kinds.append(value if equals else next(left, ""))
        elif key == "--entity-name":
            name = value if equals else next(left, "")
        elif key == "--entity-default":
            is_default = True
        else:
            own.append(word)
    if not kinds:
        return own
    if set(kinds) & {"users", "clients", "ips"}:
        raise Untranslatable(
            "users have commands of their own: eosin quotas set --user NAME producer_byte_rate=N for quotas,"
            " eosin users add NAME for passwords"
        )
    if kinds[0] not in _ENTITIES:
        raise Untranslatable(f"--entity-type {kinds[0]} has no settings here: {', '.join(_ENTITIES)} have")
    if kinds[0] == "brokers" and (is_default or name is None):
        return [*own, "--broker-defaults"]
    if name is None:
        raise Untranslatable(f"--entity-name is missing: eosin configs describe {_ENTITIES[kinds[0]]} NAME")
    return [*own, f"{_ENTITIES[kinds[0]]}={name}"]


def _changes(text: str) -> Sequence[str]:
    """The meaning of NAME=VALUE,NAME=[VALUE,VALUE]."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            found.append("")
        elif letter not in "[]":
            found[-1] += letter
    return [f"--set={each.strip()}" for each in found]


_CONFIGS: Final = Dialect(
    prepare=_of_entity,
    actions={"--describe": "describe", "--alter": "alter"},
    options={
        **_CONNECTION,
        "--add-config": Foreign(_changes),
        "--delete-config": Foreign(lambda text: [f"--delete={each.strip()}" for each in text.split(",")]),
        "--add-config-file": refused("settings are typed one by one: --set NAME=VALUE --set NAME=VALUE"),
    },
)


def _rights(typed: Sequence[str]) -> list[str]:
    """`--allow-principal P --operation Read --operation Write` as `--principal=P --allow=Read,Write`."""
    own: list[str] = []
    operations: list[str] = []
    effect = ""
    left = iter(typed)
    for word in left:
        key, equals, value = word.partition("=")
        if key in ("--allow-principal", "--deny-principal"):
            effect = f"--{key.split('-')[2]}"
            own.append(f"--principal={value if equals else next(left, '')}")
        elif key == "--operation" and typed[0] != "explain":
            operations.append(value if equals else next(left, ""))
        else:
            own.append(word)
    if operations or (effect == "--deny" or (effect and not {"--producer", "--consumer"} & set(own))):
        own.append(f"{effect or '--allow'}={','.join(operations) or 'ALL'}")
    return own


def _pattern(text: str) -> Sequence[str]:
    if text.lower() == "prefixed":
        return ("--prefixed",)
    if text.lower() == "literal":
        return ()
    raise Untranslatable(f"{text!r} is no kind of name here: --prefixed, or nothing for a whole name")


_ACLS: Final = Dialect(
    prepare=_rights,
    actions={"--list": "list", "--add": "add", "--remove": "remove"},
    options={
        **_CONNECTION,
        **dict.fromkeys(("--allow-host", "--deny-host"), option("--host")),
        "--resource-pattern-type": Foreign(_pattern),
        "--force": words(),
        "--authorizer-properties": refused("the brokers keep the rights: give --bootstrap-server HOST:PORT"),
    },
)

# Transactions -------------------------------------------------------------------------------------------------------

_ID: Final[Table] = {"--transactional-id": argument()}
_TRANSACTIONS: Final = Dialect(
    actions={f"--{name}": name for name in ("list", "describe", "find-hanging", "abort", "force-terminate")},
    options=_CONNECTION,
    of_actions={
        "list": {
            "--duration-filter": option("--longer-than"),
            "--transactional-id-pattern": option("--pattern"),
            "--producer-id-filter": option("--producer-id"),
        },
        "describe": _ID,
        "abort": {"--topic": argument(), "--partition": argument(1)},
        "force-terminate": _ID,
        "describe-producers": {"--topic": argument(), "--partition": argument(1)},
    },
)
_PRODUCERS: Final = Dialect({**_CONNECTION, "--topic": argument(), "--partition": argument(1)})

# The rest -----------------------------------------------------------------------------------------------------------

_DUMP_LOG: Final = Dialect(
    {
        "--files": Foreign(lambda text: text.split(","), place=0),
        **dict.fromkeys(("--print-data-log", "--deep-iteration"), words("--deep")),
        "--transaction-log-decoder": words("--transaction-log"),
        "--offsets-decoder": words("--offsets"),
        "--verify-index-only": refused("eosin check DIRECTORY verifies indexes, too", has_value=False),
        "--index-sanity-check": refused("eosin check DIRECTORY verifies indexes, too", has_value=False),
    }
)

DIALECTS: Final = {
    "acls": _ACLS,
    "cluster": Dialect(_CONNECTION),
    "configs": _CONFIGS,
    "console": Dialect(_CONNECTION),
    "consume": _CONSUME,
    "dump-log": _DUMP_LOG,
    "explain": Dialect({**_CONNECTION, **dict.fromkeys(("--transactional-id", "--group", "--topic"), argument())}),
    "features": Dialect(_CONNECTION, of_actions={"upgrade": _FEATURE, "downgrade": _FEATURE}),
    "groups": _GROUPS,
    "health": Dialect(_CONNECTION),
    "produce": _PRODUCE,
    "producers": _PRODUCERS,
    "quotas": Dialect(_CONNECTION),
    "topics": _TOPICS,
    "transactions": _TRANSACTIONS,
    "users": Dialect(_CONNECTION),
}
