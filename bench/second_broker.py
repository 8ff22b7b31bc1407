"""Two Eosin brokers on one machine, their partitions shared out and not replicated, beside one that runs alone: what a
second core gives, since a broker has one thread for requests.

Clients share the cores with the brokers and the controller, so with two cores there is less than one left to gain.
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from broker_process import BrokerProcess
from confluent_kafka.admin import AdminClient
from joined_broker import JoinedBroker
from kraft_node import QuorumController

from bench import throughput
from bench.commits import rate
from bench.raw_connection import RawConnection
from bench.report import Row, percentile

GROUP: Final = "Two brokers on one machine, one replica"
_TWO, _ONE = "two brokers", "one Eosin"
KIB, MIB = 1024, 1024 * 1024
STREAMS: Final = 2
"""Producers that stream, each to a partition of its own."""


def _rates(addresses: Mapping[str, str], durability: str, seconds: float, rounds: int) -> list[Row]:
    rows = []
    for producers in (4, 16):
        found: dict[str, list[float]] = {name: [] for name in addresses}
        for number in range(rounds):
            for name, address in addresses.items():
                found[name].append(rate(address, producers, seconds, f"rate-{producers}-{number}"))
        measured = {name: percentile(rates, 0.5) for name, rates in found.items()}
        rows.append(_row(f"transactions, {producers} producers, {durability}", measured, "/s"))
    return rows


def _streams(addresses: Mapping[str, str], durability: str, volume: int, rounds: int) -> list[Row]:
    """MB/s of two producers together, each on a connection to the leader of its partition."""
    batch = throughput.batch_of(KIB, 64 * KIB)
    count = volume // len(batch)
    found: dict[str, list[float]] = {name: [] for name in addresses}
    for address in addresses.values():
        admin = RawConnection(_port(address.split(",")[0]))
        throughput.create_topic(admin, "stream", STREAMS)
        admin.close()
    time.sleep(2)  # brokers hear of a new topic after the client that made it
    for _ in range(rounds):
        for name, address in addresses.items():
            wires = [RawConnection(port) for port in _leaders(address)]
            with ThreadPoolExecutor(STREAMS) as threads:
                started = time.perf_counter()
                done = [
                    threads.submit(throughput.produce, wire, "stream", batch, count, partition=partition)
                    for partition, wire in enumerate(wires)
                ]
                for each in done:
                    each.result()
                found[name].append(STREAMS * count * len(batch) / (time.perf_counter() - started) / 1e6)
            for wire in wires:
                wire.close()
    measured = {name: percentile(rates, 0.5) for name, rates in found.items()}
    return [_row(f"produce, {STREAMS} producers, 1 KiB records, {durability}", measured, "MB/s")]


def _row(name: str, measured: Mapping[str, float], unit: str) -> Row:
    return Row(GROUP, name, measured[_TWO], unit, measured[_ONE], _ONE, higher_is_better=True)


def _leaders(address: str) -> Sequence[int]:
    """The ports of the leaders of the stream's partitions, in order."""
    found = AdminClient({"bootstrap.servers": address}).list_topics("stream", timeout=10)
    partitions = found.topics["stream"].partitions
    return [found.brokers[partitions[index].leader].port for index in range(STREAMS)]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def run(quick: bool = False) -> list[Row]:
    """Both at both durable levels. Raises NotHere without java and, the first time, Maven."""
    rows: list[Row] = []
    for durability in ("os", "fsync"):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            controller = stack.enter_context(QuorumController(Path(folder) / "controller"))
            two = [
                stack.enter_context(
                    JoinedBroker(Path(folder) / f"broker-{node_id}", controller, node_id=node_id, durability=durability)
                )
                for node_id in (1, 2)
            ]
            one = stack.enter_context(BrokerProcess(Path(folder) / "alone", durability=durability))
            addresses = {_TWO: ",".join(each.address for each in two), _ONE: one.address}
            for address in addresses.values():
                rate(address, 2, 0.5 if quick else 5, "warm")
            rows += _rates(addresses, durability, 1 if quick else 5, 1 if quick else 5)
            rows += _streams(addresses, durability, (8 if quick else 128) * MIB, 1 if quick else 5)
    return rows
