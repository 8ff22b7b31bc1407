"""`eosin serve --add-scram`: users for a store that has none, in Kafka's own syntax (security.md 4.1.4)."""

from pathlib import Path

import pytest
from broker_process import BrokerProcess
from fake_logs import FakeLogManager

from eosin.broker.security.first_users import add_first_users, parse_first_user, users_in_file
from eosin.cli import serve
from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.protocol.sasl.scram_credentials import is_password_of, salted_password
from eosin.protocol.sasl.steps import Mechanism
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.security.sasl.lookup import DEFAULT_ITERATIONS, find
from eosin.settings.broker import BrokerConfig
from eosin.settings.settings import SettingError

KEY = "--add-scram"


async def started() -> EmbeddedCluster:
    cluster = EmbeddedCluster(
        config=BrokerConfig(), log_manager=FakeLogManager(), clock=SystemClock(), chance=SeededChance(1)
    )
    await cluster.start()
    return cluster


async def test_they_are_stored_where_there_are_none_and_nowhere_else() -> None:
    cluster = await started()
    admin = parse_first_user("SCRAM-SHA-512=[name=admin,password=secret]", key=KEY)
    other = parse_first_user("SCRAM-SHA-256=[name=admin,iterations=4096,password=another]", key=KEY)
    assert await add_first_users(cluster, [admin, other])
    assert not await add_first_users(cluster, [parse_first_user("SCRAM-SHA-256=[name=eve,password=x]", key=KEY)])
    assert list(cluster.credentials.users()) == ["admin"]
    strong, weak = (
        find(cluster.credentials, "admin", each) for each in (Mechanism.SCRAM_SHA_512, Mechanism.SCRAM_SHA_256)
    )
    assert strong is not None
    assert weak is not None
    assert (strong.iterations, weak.iterations) == (DEFAULT_ITERATIONS, 4096)
    assert is_password_of(strong, "secret")
    assert is_password_of(weak, "another")


async def test_a_salted_password_is_as_good_as_the_password() -> None:
    # The example of kafka-storage's documentation has this salt.
    salt = "MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3I="
    salted = salted_password(Mechanism.SCRAM_SHA_256, "pencil", b"1lv4pdnw4fwq7notcxm0ycr", 4096)
    text = f'SCRAM-SHA-256=[name=alice,salt="{salt}",saltedpassword="{_base64(salted)}",iterations=4096]'
    cluster = await started()
    assert await add_first_users(cluster, [parse_first_user(text, key=KEY)])
    found = find(cluster.credentials, "alice", Mechanism.SCRAM_SHA_256)
    assert found is not None
    assert is_password_of(found, "pencil")


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "admin:secret",
        "SCRAM-SHA-1=[name=a,password=secret]",
        "SCRAM-SHA-512=name=a,password=secret",
        "SCRAM-SHA-512=[name=a]",
        "SCRAM-SHA-512=[password=secret]",
        "SCRAM-SHA-512=[name=a,password=]",
        "SCRAM-SHA-512=[name=a,name=b,password=secret]",
        "SCRAM-SHA-512=[name=a,password=secret,more=x]",
        "SCRAM-SHA-512=[name=a,password=secret,iterations=1]",
        "SCRAM-SHA-512=[name=a,password=secret,iterations=many]",
        "SCRAM-SHA-512=[name=a,password=secret,salt=!]",
        "SCRAM-SHA-512=[name=a,saltedpassword=secret]",
        "SCRAM-SHA-512=[name=a,salt=MTIzNDU2Nzg=,saltedpassword=MTIzNDU2Nzg=]",
    ],
)
def test_a_malformed_first_user_is_refused_without_repeating_the_password(text: str) -> None:
    with pytest.raises(SettingError) as refused:
        parse_first_user(text, key=KEY)
    assert str(refused.value).startswith(KEY)
    assert "secret" not in str(refused.value)


def test_a_file_has_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# first\n\nSCRAM-SHA-512=[name=a,password=x]\nSCRAM-SHA-256=[name=b,password=y]\n")
    assert [(each.name, each.mechanism) for each in users_in_file(str(file), key=KEY)] == [
        ("a", "SCRAM-SHA-512"),
        ("b", "SCRAM-SHA-256"),
    ]
    with pytest.raises(SettingError, match="--add-scram cannot be read"):
        users_in_file(str(tmp_path / "nowhere"), key=KEY)


def test_a_bad_one_ends_the_start_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve.main(["--data-dir", str(tmp_path / "data"), KEY, "SCRAM-SHA-512=[name=a]"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.process
def test_a_broker_starts_with_them_and_says_when_it_has_none(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", settings={"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT"})
    with broker:
        assert "there are no users yet, so nobody can log in" in broker.log
    broker.options = (KEY, "SCRAM-SHA-512=[name=a,password=secret]")
    told = broker.log.count("there are no users yet")
    with broker:
        assert broker.log.count("there are no users yet") == told
        assert "use --add-scram-file" in broker.log
        assert "secret" not in broker.log
