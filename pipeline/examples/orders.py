"""Orders to totals per user: a stateful sum, whose every output row can be checked.

An order is a record keyed by its user, with `{"user": ..., "amount": ...}` as its value. A user's orders are in one
partition, and a micro-batch takes a range of it, so a row of the output says what the first N orders of a user add up
to. That is why it proves anything: an order that is missing or counted twice makes every later total wrong, and a batch
that is written twice says the same N again.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from eosin.client.consumer import ConsumedRecord
from eosin.protocol.records import NewRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODE: Final = "update"
USERS: Final = ("ada", "ben", "cleo", "dora", "emil", "fay", "gus")


def totals(orders: "DataFrame") -> "DataFrame":
    """The pipeline: for each user who has ordered in a batch, the number and the sum of all orders so far."""
    from pyspark.sql import functions as f

    order = f.from_json(f.col("value").cast("string"), "user string, amount long")
    parsed = orders.select(order.alias("order"))
    sums = parsed.groupBy("order.user").agg(f.count("*").alias("orders"), f.sum("order.amount").alias("total"))
    return sums.select(f.col("user").alias("key"), f.to_json(f.struct("user", "orders", "total")).alias("value"))


def records(count: int) -> Iterator[NewRecord]:
    """Orders number 0 to `count`, the same ones each time."""
    for number in range(count):
        user = USERS[number * number % 11 % len(USERS)]
        order = {"order": number, "user": user, "amount": 1 + number * 37 % 100}
        yield NewRecord(user.encode(), json.dumps(order).encode())


def complaints(inputs: list[ConsumedRecord], outputs: list[ConsumedRecord]) -> list[str]:
    """What is wrong with the output, in sentences; nothing when each order is reflected exactly once."""
    sums: dict[str, list[int]] = {}
    for each in inputs:
        order = json.loads(each.record.value or b"")
        history = sums.setdefault(order["user"], [0])
        history.append(history[-1] + order["amount"])
    found = []
    seen: dict[str, int] = {}
    for each in outputs:
        row = json.loads(each.record.value or b"")
        user, orders, total = row["user"], row["orders"], row["total"]
        history = sums.get(user, [0])
        if orders <= seen.get(user, 0):
            found.append(f"{user}: {orders} orders are told again, after {seen[user]}")
        elif orders >= len(history):
            found.append(f"{user}: {orders} orders are told, and there are {len(history) - 1}")
        elif total != history[orders]:
            found.append(f"{user}: the first {orders} orders add up to {history[orders]}, and {total} is told")
        seen[user] = max(orders, seen.get(user, 0))
    for user, history in sums.items():
        if seen.get(user, 0) < len(history) - 1:
            found.append(f"{user}: {len(history) - 1 - seen.get(user, 0)} of {len(history) - 1} orders are missing")
    return found
