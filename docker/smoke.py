"""One committed and one aborted transaction through librdkafka; a read_committed reader must see the first one only.

    python smoke.py HOST:PORT [FILE]

Exit code 0 when it does. Uses a topic of its own and leaves it behind. The file has settings of librdkafka for TLS and
a login, one NAME=VALUE a line.
"""

import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS = 100
TIMEOUT_S = 30.0


def main(address: str, file: str | None = None) -> int:
    """Run the check against the broker at `address`; returns the exit code."""
    lines = [] if file is None else Path(file).read_text().splitlines()
    where = {"bootstrap.servers": address} | {name: value for name, _, value in (line.partition("=") for line in lines)}
    run = uuid.uuid4().hex[:8]
    topic = f"smoke-{run}"
    # A broker may make no topics by itself, and the order is that of one partition.
    admin = AdminClient(where)
    for made in admin.create_topics([NewTopic(topic, 1)]).values():
        made.result(TIMEOUT_S)
    producer = Producer({**where, "transactional.id": f"smoke-{run}"})
    producer.init_transactions(TIMEOUT_S)
    for outcome in ("aborted", "committed"):
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(topic, key=str(number), value=f"{outcome}-{number}")
        if outcome == "committed":
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
    seen = read_committed(where, topic, f"smoke-{run}")
    expected = [f"committed-{number}" for number in range(RECORDS)]
    if seen != expected:
        print(f"expected {len(expected)} committed records, saw {len(seen)}: {seen[:5]}...", file=sys.stderr)
        return 1
    print(f"{address}: {RECORDS} records committed and read, {RECORDS} aborted and never seen")
    return 0


def read_committed(where: Mapping[str, str], topic: str, group: str) -> list[str]:
    """What a read_committed consumer sees, until it has seen as many as were committed and a moment longer."""
    consumer = Consumer(
        {
            **where,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    seen: list[str] = []
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                if len(seen) >= RECORDS:
                    break
                continue
            if message.error() is None:
                value = message.value()
                assert value is not None
                seen.append(value.decode())
    finally:
        consumer.close()
    return seen


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
