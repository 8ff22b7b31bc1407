"""Logins (security.md 9.4): what one costs the broker over TLS, what its steps cost alone, and how long somebody else's
request takes while three hundred clients log in in each second. The clients share the machine with the broker."""

import asyncio
import contextlib
import io
import multiprocessing
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from broker_process import BrokerProcess
from manual_clock import ManualClock
from sasl_peer import PASSWORD, users

from bench.raw_connection import RawConnection, cpu_seconds
from bench.report import Row, percentile
from bench.small_requests import heartbeat
from eosin.cli import users as users_command
from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.client.security.connection_security import ConnectionSecurity
from eosin.protocol.sasl.plain import plain_message
from eosin.protocol.sasl.scram_client import ScramClient
from eosin.protocol.sasl.scram_credentials import ScramCredential, credential_of
from eosin.protocol.sasl.scram_messages import read_client_first
from eosin.protocol.sasl.scram_server import ScramServer
from eosin.protocol.sasl.steps import Challenge, Failure, Mechanism, Success
from eosin.security.sasl.plain import PasswordChecks, PlainExchange
from eosin.security.tls.dev_certificates import make

GROUP: Final = "Logins"
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
ITERATIONS: Final = 4096
A_SECOND: Final = 300
_USER: Final = "bench"


def run(quick: bool = False) -> list[Row]:
    """One broker, asked over TLS, with a plain listener for whoever is measured meanwhile."""
    count, seconds = (50, 1.0) if quick else (300, 10.0)
    rows = [*_steps(500 if quick else 5000)]
    with tempfile.TemporaryDirectory() as folder, _broker(Path(folder)) as (broker, plain, secured):
        for mechanism in MECHANISMS:
            security = _security(Path(folder), mechanism)
            asyncio.run(_logins(secured, security, 20, None))
            before = cpu_seconds(broker.pid)
            asyncio.run(_logins(secured, security, count, None))
            cost_ms = (cpu_seconds(broker.pid) - before) / count * 1e3
            rows.append(Row(GROUP, f"a connection with TLS and {mechanism}, broker's CPU", cost_ms, "ms", budget=1.5))
        alone = _p99_ms(plain, seconds)
        context = multiprocessing.get_context("spawn")
        # It begins before what is measured, and ends after it.
        storm = context.Process(target=_storm, args=(folder, secured, seconds + 6))
        storm.start()
        time.sleep(3)
        before = cpu_seconds(broker.pid)
        beside = _p99_ms(plain, seconds)
        cost_ms = (cpu_seconds(broker.pid) - before) / seconds / A_SECOND * 1e3
        storm.join()
    name = f"another's request while {A_SECOND} a second log in, p99"
    rows.append(Row(GROUP, name, beside, "ms", alone, "nobody does", budget=2))
    rows.append(Row(GROUP, "one of those logins, broker's CPU with that of the requests", cost_ms, "ms", budget=1.5))
    return rows


@contextlib.contextmanager
def _broker(folder: Path) -> Iterator[tuple[BrokerProcess, int, int]]:
    """A broker with one user, and the ports of its listeners: without anything, and with TLS and logins."""
    for name, content in make(["localhost", "127.0.0.1"], client="bench", now=datetime.now(UTC)).items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(content)
    (folder / "password").write_text(PASSWORD)
    words = ["add", _USER, "--data-dir", str(folder / "data"), "--password-file", str(folder / "password")]
    with contextlib.redirect_stdout(io.StringIO()):
        assert users_command.main([*words, "--iterations", str(ITERATIONS)]) == 0
    broker = BrokerProcess(
        folder / "data",
        durability="os",
        settings={
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.location": str(folder / "broker.pem"),
            "eosin.unauthenticated.connections.per.ip.max": "1000",
        },
    )
    broker.options = ("--listen", "LOGIN=127.0.0.1:0")
    with broker:
        plain, secured = map(int, re.findall(r"127\.0\.0\.1:(\d+)", broker.ready_line))
        yield broker, plain, secured


def _security(folder: Path, mechanism: str) -> ConnectionSecurity:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    made = ConnectionSecurity.of(
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": str(folder / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required"
            f' username="{_USER}" password="{PASSWORD}";',
        }
    )
    assert made is not None
    return made


async def _logins(port: int, security: ConnectionSecurity, count: int, a_second: int | None) -> None:
    """Log in, one after the other, or so many in a second."""

    async def login() -> None:
        async with await Connection.open(Address("localhost", port), security=security):
            pass

    started, under_way = time.perf_counter(), set[asyncio.Task[None]]()
    for number in range(count):
        if a_second is None:
            await login()
            continue
        await asyncio.sleep(started + number / a_second - time.perf_counter())
        task = asyncio.create_task(login())
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)


def _storm(folder: str, port: int, seconds: float) -> None:
    """In a process of its own."""
    asyncio.run(_logins(port, _security(Path(folder), "SCRAM-SHA-256"), int(seconds * A_SECOND), A_SECOND))


def _p99_ms(port: int, seconds: float) -> float:
    """Of requests on a connection that was there before."""
    frame, times, end = heartbeat(), [], time.perf_counter() + seconds
    connection = RawConnection(port)
    while time.perf_counter() < end:
        started = time.perf_counter()
        connection.send(frame)
        connection.receive()
        times.append(time.perf_counter() - started)
        time.sleep(0.002)
    connection.close()
    return percentile(times, 0.99) * 1e3


def _steps(count: int) -> Iterator[Row]:
    """Measure the steps of an exchange on the broker's loop, without the connection around it."""
    for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512):
        credential = credential_of(mechanism, PASSWORD, b"s" * 24, ITERATIONS)
        client = ScramClient(mechanism, _USER, PASSWORD, "n" * 32)
        final = client.step(_begun(client.first, credential).challenge)
        assert isinstance(final, Challenge)
        exchange = partial(_exchange, client.first, final.token, credential)
        yield Row(GROUP, f"steps of {mechanism.value}, on the loop", _us(exchange, count), "us", budget=100)
    plain_us = asyncio.run(_plain_us(count))
    yield Row(GROUP, "PLAIN with a password that is remembered, on the loop", plain_us, "us", budget=50)


def _begun(first: bytes, credential: ScramCredential) -> ScramServer:
    read = read_client_first(first)
    assert not isinstance(read, Failure)
    return ScramServer(read, credential, "x" * 32)


def _exchange(first: bytes, final: bytes, credential: ScramCredential) -> None:
    assert isinstance(_begun(first, credential).finish(final), Success)


def _us(work: Callable[[], object], count: int) -> float:
    best = float("inf")
    for _ in range(5):
        started = time.thread_time()
        for _ in range(count // 5):
            work()
        best = min(best, (time.thread_time() - started) / (count // 5) * 1e6)
    return best


async def _plain_us(count: int) -> float:
    checks, token = PasswordChecks(users("alice"), ManualClock()), plain_message("alice", PASSWORD)
    best = float("inf")
    for _ in range(6):
        started = time.thread_time()
        for _ in range(count // 5):
            await PlainExchange(checks, {}, "127.0.0").step(token)
        best = min(best, (time.thread_time() - started) / (count // 5) * 1e6)
    checks.close()
    return best
