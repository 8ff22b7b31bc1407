"""Lines as users of Kafka's tools, kcat and rpk type them, in the words of `eosin`."""

import shlex
from importlib import import_module

import pytest
from shell import Shell
from wire import unique

from eosin.cli.__main__ import main
from eosin.cli.common.arguments import Parser
from eosin.cli.translation.tools import DIALECTS
from eosin.cli.translation.translation import Untranslatable, translated

MEANT = {
    # Kafka's console consumer and producer
    "consume --topic orders --from-beginning": "consume orders --from=earliest",
    "consume --bootstrap-server b:1 --topic orders --from-beginning --max-messages 5": (
        "consume orders --bootstrap-server b:1 --from=earliest --count=5"
    ),
    "consume --topic orders --partition 0 --offset 42": "consume orders --partition 0 --from=42",
    "consume --topic orders --partition 0 --offset latest": "consume orders --partition 0 --from=latest --follow",
    "consume --topic=orders --max-messages=1 --timeout-ms 500": "consume orders --count=1",
    "consume --topic orders --isolation-level read_committed": "consume orders --isolation=read_committed",
    "consume --topic orders --property print.key=true --property print.offset=true --property key.separator=-": (
        "consume orders --separator=- --show=offset,key"
    ),
    "consume --topic orders --consumer-property isolation.level=read_uncommitted": (
        "consume orders --isolation=read_uncommitted"
    ),
    "consume --topic orders --consumer.config client.properties": "consume orders --command-config=client.properties",
    "produce --broker-list b:1 --topic orders": "produce orders --bootstrap-server=b:1",
    "produce --topic orders --property parse.key=true --property key.separator=:": "produce orders --key-separator=:",
    "produce --topic orders --property parse.key=true": r"produce orders '--key-separator=\t'",
    "produce --topic orders --producer-property acks=-1 --compression-codec gzip": (
        "produce orders --acks=all --compression=gzip"
    ),
    "produce --topic orders --producer-property transactional.id=t --sync": "produce orders --transactional-id=t",
    # kcat
    "consume -b b:1 -t orders -o beginning -e": "consume orders --bootstrap-server=b:1 --from=earliest",
    "consume -C -t orders -o -10 -c 5 -J": "consume orders --from=-10 --count=5 --json",
    "consume -C -t orders -o-10 -c5 -q": "consume orders --from=-10 --count=5",
    "consume -t orders -p 0 -o s@1700000000000": "consume orders --partition=0 --from=2023-11-14T22:13:20.000000+00:00",
    "consume -t orders -o end": "consume orders --from=latest --follow",
    r"consume -t orders -f '%k %v\n'": r"consume orders '--format=%k %v\n'",
    r"consume orders -f'%v\n'": r"consume orders '--format=%v\n'",
    "consume -t orders -K : -Z": "consume orders --show=key --separator=: --null=NULL",
    "consume -t orders -X brokers=b:1": "consume orders --bootstrap-server=b:1",
    "produce -P -t orders -k ann -H from=shop -z gzip -p 1": (
        "produce orders --key=ann --header=from=shop --compression=gzip --partition=1"
    ),
    "produce -t orders -K :": "produce orders --key-separator=:",
    # rpk
    "consume orders -n 5 -o start": "consume orders --count=5 --from=earliest",
    "consume orders -p 0,2 -o :end": "consume orders --partition=0 --partition=2",
    r"consume orders --brokers b:1 --format '%t %o\n'": r"consume orders --bootstrap-server=b:1 --format '%t %o\n'",
    "consume orders --format json": "consume orders --json",
    "produce orders -H from:shop": "produce orders --header=from=shop",
    "topics create orders -p 3 -r 1 -c cleanup.policy=compact": (
        "topics create orders --partitions=3 --replication-factor=1 --config=cleanup.policy=compact"
    ),
    "groups describe -g readers": "groups describe readers",
    "groups reset-offsets readers --to start --topics orders": (
        "groups reset-offsets readers --to-earliest --topic=orders"
    ),
    # kafka-topics
    "topics --list": "topics list",
    "topics --bootstrap-server b:1 --list --exclude-internal": "topics list --bootstrap-server b:1",
    "topics --bootstrap-server b:1 list": "topics list --bootstrap-server b:1",
    "topics --create --topic x --partitions 3 --replication-factor 1 --config a=b": (
        "topics create x --partitions 3 --replication-factor 1 --config a=b"
    ),
    "topics --create --if-not-exists --topic x --topic y": "topics create x y --if-not-exists",
    "topics --describe": "topics describe",
    "topics --describe --topic x": "topics describe x",
    "topics --alter --topic x --partitions 6": "topics alter x --partitions 6",
    "topics --delete --topic x --if-exists": "topics delete x --if-exists",
    # kafka-consumer-groups
    "groups --list": "groups list",
    "groups --list --state": "groups list",
    "groups --list --state Empty": "groups list --state Empty",
    "groups --describe --group g": "groups describe g",
    "groups --describe --group g --group h --offsets": "groups describe g h",
    "groups --describe --group g --members --verbose": "groups describe g --members",
    "groups --describe --all-groups --state": "groups describe",
    "groups --delete --group g": "groups delete g",
    "groups --reset-offsets --group g --topic orders:0 --to-earliest --execute": (
        "groups reset-offsets g --topic orders:0 --to-earliest --execute"
    ),
    "groups --delete-offsets --group g --topic orders": "groups delete-offsets g --topic orders",
    # kafka-configs, kafka-acls, kafka-transactions, kafka-dump-log, kafka-server-start
    "configs --describe --entity-type topics --entity-name orders --all": "configs describe --all --topic=orders",
    "configs --describe --entity-type brokers --entity-default": "configs describe --broker-defaults",
    "configs --alter --entity-type topics --entity-name orders --add-config a=1,cleanup.policy=[compact,delete]": (
        "configs alter --set=a=1 --set=cleanup.policy=compact,delete --topic=orders"
    ),
    "configs --alter --topic orders --delete-config a,b": "configs alter --topic orders --delete=a --delete=b",
    "acls --add --allow-principal User:ann --operation Read --operation Write --topic orders": (
        "acls add --principal=User:ann --topic orders --allow=Read,Write"
    ),
    "acls --add --deny-principal User:ann --topic o --resource-pattern-type prefixed": (
        "acls add --principal=User:ann --topic o --prefixed --deny=ALL"
    ),
    "acls --add --allow-principal User:ann --producer --topic orders": (
        "acls add --principal=User:ann --producer --topic orders"
    ),
    "transactions describe --transactional-id shop": "transactions describe shop",
    "transactions --bootstrap-server b:1 list": "transactions list --bootstrap-server b:1",
    "transactions abort --partition 3 --topic orders --start-offset 7": (
        "transactions abort orders 3 --start-offset 7"
    ),
    "transactions list --transactional-id-pattern a.*": "transactions list '--pattern=a.*'",
    "producers --topic orders --partition 0": "producers orders 0",
    "dump-log --files a.log,b.log --print-data-log": "dump-log a.log b.log --deep",
    "health -b b:1": "health --bootstrap-server=b:1",
    "explain --group readers": "explain readers",
}

SAID = {
    "consume --zookeeper z:2181 --topic orders": "give --bootstrap-server HOST:PORT",
    "consume --whitelist 'o.*'": "eosin consume orders invoices",
    "consume -t orders -G readers": "--group GROUP begins where that group is",
    "consume -t orders -o stored": "--group GROUP begins where that group is",
    "consume -t orders -o soon": "--from 15m",
    f"consume -t orders -o {'9' * 5000}": "--from 15m",
    "consume -t orders -o s@999999999999999999": "no time in milliseconds",
    "consume -t orders -s avro": "bytes",
    "consume -t orders --consumer-property fetch.min.bytes=1": "give --command-config FILE",
    "consume -t orders --property print.value=false": r"--format '%k\n'",
    "consume -t orders --max-messages": "--max-messages needs a value",
    "produce -t orders -a 0": "--acks 1 or --acks all",
    "produce -t orders --property parse.headers=true": "eosin produce TOPIC --json",
    "produce orders -f '%v'": "--key-separator",
    "topics --create --topic x --replica-assignment 1:2": "--replication-factor N",
    "topics --describe --under-replicated-partitions": "eosin cluster describe --partitions --under-replicated",
    "topics --list --topic x": "eosin topics describe TOPIC",
    "groups --delete --all-groups": "eosin groups delete GROUP GROUP",
    "groups --reset-offsets --export --group g": "--to-current --json",
    "configs --alter --entity-type users --entity-name u --add-config a=1": "eosin quotas set --user NAME",
    "configs --describe --entity-type topics": "eosin configs describe --topic NAME",
    "acls --authorizer-properties zookeeper.connect=z:1 --list": "--bootstrap-server",
    "consume -t orders -X security.protocol=SSL": "--command-config FILE",
}


def own_words(line: str) -> tuple[str, list[str]]:
    """The command of a line, and its words in the language of that command."""
    command, *words = shlex.split(line)
    return command, translated(words, DIALECTS[command])


@pytest.mark.parametrize(("typed", "meant"), MEANT.items())
def test_a_line_of_another_tool_means_an_own_one(typed: str, meant: str) -> None:
    command, words = own_words(typed)
    assert [command, *words] == shlex.split(meant)
    parser: Parser = import_module(f"eosin.cli.{command.replace('-', '_')}").parser()
    if "groups reset-offsets" not in meant or "--to" in meant:
        parser.parse_args(words)


@pytest.mark.parametrize(("typed", "said"), SAID.items())
def test_a_line_without_a_counterpart_is_answered_with_what_to_type(typed: str, said: str) -> None:
    with pytest.raises(Untranslatable) as refused:
        own_words(typed)
    assert said in str(refused.value)
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("meant", MEANT.values())
def test_an_own_line_stays_as_it_is(meant: str) -> None:
    _, words = own_words(meant)
    assert words == shlex.split(meant)[1:]


def test_own_short_options_and_values_that_look_like_others_stay() -> None:
    for line in (
        "consume orders -f",
        "consume -f orders",
        "consume orders --separator=-n",
        "consume orders --from -10",
        "consume -- -t",
        "groups reset-offsets g --topic orders --topic invoices --shift-by -10",
        "produce orders --key=--topic",
    ):
        command, words = own_words(line)
        assert words == shlex.split(line)[1:], line
        assert command in DIALECTS


def test_a_line_without_a_counterpart_ends_with_2_and_names_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "--whitelist", "o.*"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("eosin consume orders invoices (eosin consume --help)\n")


@pytest.mark.process
def test_lines_of_other_tools_are_carried_out(shell: Shell) -> None:
    topic, group = unique("topic"), unique("group")
    shell.ok("topics", "--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1")
    keys = ("--property", "parse.key=true", "--property", "key.separator=:")
    shell.ok("produce", "--topic", topic, *keys, given=b"a:1\nb:2\n")
    assert shell.ok("consume", "--topic", topic, "--from-beginning", "--max-messages", "1").lines == ["1"]
    assert shell.ok("consume", "-C", "-t", topic, "-o", "beginning", "-e", "-f", r"%p:%o %k=%v\n").lines == [
        "0:0 a=1",
        "0:1 b=2",
    ]
    shell.ok("groups", "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    everything = shell.ok("groups", "--describe", "--all-groups").lines
    assert everything[0].split()[0] == "GROUP"
    assert [line.split()[:7] for line in everything if line.startswith(f"{group} ")] == [
        [group, topic, "0", "0", "2", "2", "2"]
    ]
    described = shell.ok("topics", "--describe").lines
    assert any(line.startswith(f"{topic}: topic id ") for line in described)
    code, said = shell.refused("consume", topic[:-1])
    assert (code, f"there is no topic {topic[:-1]!r}; did you mean topic-" in said) == (1, True)
    code, said = shell.refused("groups", "describe", group[:-1])
    assert (code, "did you mean group-" in said) == (1, True)


@pytest.mark.process
def test_a_subject_that_is_nearly_right_is_explained_with_the_right_one(shell: Shell) -> None:
    topic = shell.topic()
    ended = shell.run("explain", topic[:-1])
    assert (ended.code, ended.err.startswith("eosin explain: did you mean topic-")) == (1, True)
