"""The copier of Apache Kafka's own system tests copies a partition exactly once, also when it is killed on the way."""

import subprocess
from collections.abc import Callable

from real_clients import tools
from real_clients.base import Received, read_all
from scenario import Scenario
from toolchains import skipped_without
from waiting import HANG_S, wait_until

COUNT = 3000
TRANSACTION_SIZE = 20


def test_each_record_arrives_once_though_transactions_are_aborted_and_the_copier_is_killed(
    bootstrap: str, scenario: Scenario
) -> None:
    source, target = scenario.topic(), scenario.topic()
    written = [b"%d" % number for number in range(COUNT)]
    feed = scenario.producer()
    for value in written:
        feed.send(source, value)
    feed.flush()
    with skipped_without():
        command = [*tools.command(), tools.COPIER, "--broker-list", bootstrap, "--input-topic", source]
    command += ["--input-partition", "0", "--output-topic", target, "--transactional-id", scenario.name("copier")]
    command += ["--consumer-group", scenario.name("group"), "--transaction-size", str(TRANSACTION_SIZE)]
    command += ["--enable-random-aborts", "--use-group-metadata", "--group-mode"]
    reader = scenario.reader(target)
    copied = [each.value for each in killed_after(lambda: reader.read(1, timeout_s=0.2), command)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"stage":"ProcessLoop"' in done.stdout, "it had nothing left to do"
    copied += [each.value for each in read_all(reader, COUNT - len(copied))]
    assert copied == written


def killed_after(read: Callable[[], list[Received]], command: list[str]) -> list[Received]:
    """Run it until something is read, which is the result, and kill -9 it then."""
    read_by_then: list[Received] = []

    def something() -> bool:
        assert process.poll() is None, f"it ended with {process.returncode}"
        read_by_then.extend(read())
        return bool(read_by_then)

    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(something)
        finally:
            process.kill()
    return read_by_then
