"""Every command that asks a cluster works where everything is secured, and says in one sentence why it does not."""

from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from cluster_console import console_of
from secured_cluster import PASSWORDS, SecuredCluster
from secured_shell import PASSWORD, secured_eosin
from shell import Shell
from toolchains import skipped_without

from eosin.cli.__main__ import COMMANDS

WALK: Final = (
    "topics create walked --partitions 2",
    "topics list",
    "topics describe walked",
    "topics alter walked --config retention.ms=86400000",
    "produce walked --transactional-id walker",
    "consume walked --partition 0",
    "producers walked 0",
    "transactions list",
    "transactions describe walker",
    "transactions find-hanging --topic walked",
    "transactions force-terminate walker",
    "transactions abort walked 0 --start-offset 0",
    "groups list",
    "groups reset-offsets walkers --topic walked --to-earliest --execute",
    "groups describe walkers",
    "groups delete-offsets walkers --topic walked",
    "groups delete walkers",
    "configs describe --topic walked",
    "configs alter --topic walked --delete retention.ms",
    "quotas set --user somebody producer_byte_rate=1048576",
    "quotas list",
    "quotas remove --user somebody producer_byte_rate",
    "cluster describe",
    "features describe",
    "features upgrade transaction.version=2 --dry-run",
    "features downgrade transaction.version=2 --dry-run",
    "acls add --principal User:somebody --topic other --allow READ",
    "acls list",
    "acls explain --principal User:somebody --operation READ --topic other",
    "acls remove --principal User:somebody --topic other",
    "users add somebody --iterations 4096",
    "users passwd somebody --iterations 4096",
    "users list",
    "users delete somebody",
    "explain walker",
    "topics delete-records walked --before latest --execute",
    "topics delete walked",
)
HAS_NOTHING_TO_END: Final = {"transactions force-terminate walker", "transactions abort walked 0 --start-offset 0"}
TELLS_OF_WHAT_MAY_BE_SEEN: Final = {
    "topics list",
    "groups list",
    "transactions list",
    "cluster describe",
    "features describe",
}
"""Kafka's brokers leave out what the asker may not see: an empty list is no error."""


class Place(NamedTuple):
    """A cluster, and who asks it: an administrator, somebody without a right, and one with a wrong password."""

    admin: Shell
    nobody: Shell
    stranger: Shell


def leaves(parser: ArgumentParser, words: str) -> Iterator[str]:
    """The commands of a parser that ask a cluster."""
    deeper = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    for action in deeper:
        for name, below in action.choices.items():
            yield from leaves(below, f"{words} {name}")
    if not deeper and "--bootstrap-server" in parser._option_string_actions:
        yield words


def test_the_walk_goes_through_every_command_that_asks_a_cluster() -> None:
    found: set[str] = set()
    for name in COMMANDS:
        # health asks whether a broker answers, and never logs in; the others ask none.
        if name not in ("health", "lab", "pipeline", "serve", "testing"):
            module = import_module(f"eosin.cli.{name.replace('-', '_')}")
            found |= set(leaves(module.parser(), name))
    assert len(found) > 30
    walked = {next((each for each in found if f"{line} ".startswith(f"{each} ")), line) for line in WALK}
    assert walked | {"console"} == found  # it goes on until a signal: the last test of this file


@pytest.fixture(scope="module", params=["alone", "two joined"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("everywhere")
    if request.param == "alone":
        with secured_eosin(folder) as clerk:
            address = clerk.address
            yield from asked(folder, address, (folder / "root.properties").read_text(), "root", PASSWORD)
        return
    with skipped_without():
        cluster = SecuredCluster(folder)
    with cluster, cluster.broker(1) as first, cluster.broker(2) as second:
        written = Path(cluster.admin()).read_text()
        yield from asked(folder, first.address, written, "admin", PASSWORDS["admin"])
        assert "Traceback" not in first.log + second.log


def asked(folder: Path, address: str, written: str, user: str, password: str) -> Iterator[Place]:
    """The three who ask; `written` is the configuration of an administrator."""
    files = {"admin": written, "stranger": written.replace(f'"{password}"', '"of-somebody-else"')}
    files["nobody"] = written.replace(f'"{user}"', '"nobody"').replace(f'"{password}"', '"of-nobody"')
    for name, text in files.items():
        (folder / f"{name}-asks.properties").write_text(text)
    shells = [Shell(address, command_config=str(folder / f"{name}-asks.properties")) for name in Place._fields]
    with shells[0] as admin, shells[1] as nobody, shells[2] as stranger:
        added = admin.run(
            "users", "add", "nobody", "--iterations", "4096", "--password-file", "-", given=b"of-nobody\n"
        )
        assert added.code == 0, added.err
        yield Place(admin, nobody, stranger)


def given(line: str) -> bytes:
    """What a command reads."""
    return b"1\n2\n" if line.startswith("produce") else b"a-new-password\n" if line.startswith("users") else b""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(600)
def test_every_command_works_over_sasl_ssl_and_is_refused_in_one_sentence(place: Place) -> None:
    met: set[str] = set()
    for line in WALK:
        words = line.split() + (["--password-file", "-"] if line.startswith(("users add", "users passwd")) else [])
        if words[0] not in met:  # a broker takes its time to refuse who has failed before
            met.add(words[0])
            code, said = place.stranger.refused(*words, given=given(line))
            assert code in (1, 2), line
            assert "Authentication failed" in said, (line, said)
        refused = place.nobody.run(*words, given=given(line))
        if line in TELLS_OF_WHAT_MAY_BE_SEEN:
            assert refused.code == 0, (line, refused)
        else:
            assert (refused.code in (1, 2), refused.err.count("\n")) == (True, 1), (line, refused)
        ended = place.admin.run(*words, given=given(line))
        if line in HAS_NOTHING_TO_END:
            assert (ended.code, ended.err.count("\n")) == (1, 1), (line, ended)
        else:
            assert ended.code == 0, (line, ended)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_command_works_beside_other_kinds_of_broker_or_says_in_one_sentence_why_not(
    other_kind: Shell,
) -> None:
    for line in WALK:
        words = line.split() + (["--password-file", "-"] if line.startswith(("users add", "users passwd")) else [])
        ended = other_kind.run(*words, given=given(line))
        if line in HAS_NOTHING_TO_END or words[0] == "acls":  # there is no authorizer
            assert (ended.code, ended.err.count("\n")) == (1, 1), (line, ended)
        else:
            assert ended.code == 0, (line, ended)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_console_over_a_secured_cluster_shows_what_its_user_may_see_to_who_has_its_token(place: Place) -> None:
    created = place.admin.run("topics", "create", "shown")
    assert created.code == 0, created.err
    code, said = place.stranger.refused("console", "--http", "0")
    assert code in (1, 2)
    assert "Authentication failed" in said
    with console_of(place.admin.address, place.admin.environment) as console:
        assert console.get("/api/v1/stream?once", with_token=False).status_code == 401
        tables = console.tables()
        assert tables["broker"]["broker"]["trouble"] == ""
        assert "shown-0" in tables["partitions"]
        assert console.get("/api/v1/topics/shown").json()["partitions"] == 1
        assert console.get("/api/v1/partitions/shown-0/records").json()["records"] == []
    with console_of(place.nobody.address, place.nobody.environment) as console:
        assert "shown-0" not in console.tables()["partitions"]
        assert console.get("/api/v1/topics/shown").status_code == 404
        denied = console.get("/api/v1/partitions/shown-0/records")
        assert (denied.status_code, "may not read topic shown: it needs READ" in denied.text) == (403, True)
