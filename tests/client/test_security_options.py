"""`--command-config`, and `eosin health` with TLS: the options of commands that connect (security.md 8.3)."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sasl_stub import SaslStubBroker
from waiting import HANG_S

from eosin.cli.__main__ import main
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.list_transactions import ListTransactionsResponse

pytestmark = pytest.mark.process

JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required username=alice password=%s;"


@contextmanager
def served(**how: Any) -> Iterator[str]:
    """A stub broker in a thread; its address."""
    ready = threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        stop = asyncio.Event()
        stub = SaslStubBroker(**how)
        stub.answers[ApiKey.LIST_TRANSACTIONS] = lambda *_: ListTransactionsResponse()
        async with stub as broker:
            found.update(address=str(broker.address), stop=stop, loop=asyncio.get_running_loop())
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(HANG_S)
    try:
        yield found["address"]
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(HANG_S)


def config(folder: Path, password: str = "pencil", **others: str) -> str:
    path = folder / "client.properties"
    lines = [f"{key.replace('_', '.')}={value}" for key, value in others.items()]
    lines += ["sasl.mechanism=SCRAM-SHA-256", f"sasl.jaas.config={JAAS % password}"]
    path.write_text("\n".join(lines))
    return str(path)


def test_health_needs_no_login(tls_files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with served(context=tls_files.server()) as address:
        assert main(["health", address, "--ca", tls_files.ca]) == 0
        assert main(["health", address, "--insecure"]) == 0
        assert main(["health", address, "--ca", tls_files.other_ca]) == 1
        assert "shows a certificate that is not trusted" in capsys.readouterr().err
        assert main(["health", address, "--ca", "/nowhere.pem"]) == 2
        assert capsys.readouterr().err == "eosin health: cannot read /nowhere.pem: No such file or directory\n"


def test_a_command_logs_in_with_the_settings_of_a_file(
    tls_files: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(context=tls_files.server()) as address:
        good = config(tmp_path, security_protocol="SASL_SSL", ssl_truststore_location=tls_files.ca)
        asked = ["transactions", "list", "--bootstrap-server", address, "--command-config"]
        assert main([*asked, good]) == 0
        assert main(["health", address, "--command-config", good]) == 0
        capsys.readouterr()
        wrong = config(tmp_path, "pencils", security_protocol="SASL_SSL", ssl_truststore_location=tls_files.ca)
        assert main([*asked, wrong]) == 2
        assert capsys.readouterr().err == (
            f"eosin transactions list: {address} refuses 'alice' with SCRAM-SHA-256:"
            " Authentication failed, says the stub\n"
        )


@pytest.mark.parametrize("command", [["transactions", "list"], ["cluster", "describe"], ["producers", "t", "0"]])
def test_a_file_that_cannot_be_used_is_one_sentence(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = config(tmp_path, security_protocol="SASL_TLS")
    assert main([*command, "--command-config", bad]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{bad}: security.protocol must be one of" in line
