"""Orders to totals per user: a stateful sum, whose every output row can be checked.

An order is a record keyed by its user, with `{"user": ..., "amount": ...}` as its value. A user's orders are in one
partition, and a micro-batch takes a range of it, so a row of the output says what the first N orders of a user add up
to. That is why it proves anything: an order that is missing or counted twice makes every later total wrong, and a batch
that is written twice says the same N again.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from eosin.protocol.records.batch import NewRecord

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


def reflected(orders: "DataFrame", rows: "DataFrame") -> "DataFrame":
    """For `eosin pipeline verify`: each order by its user and number, and how often the output reflects it.

    A row that says N orders reflects those since the row before it; if that said N already, the N-th once more. A row
    whose total is not that of the first N reflects none of them, and stands for itself.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    one_by_one = Window.partitionBy("user").orderBy("offset")
    order = f.from_json(f.col("value").cast("string"), "user string, amount long")
    given = orders.select(order.alias("order"), "offset").select("order.*", "offset")
    given = given.select(
        "user", f.row_number().over(one_by_one).alias("orders"), f.sum("amount").over(one_by_one).alias("total")
    )
    row = f.from_json(f.col("value").cast("string"), "user string, orders long, total long")
    told = rows.select(row.alias("row"), "offset").select("row.*", "offset")
    said_before = f.max("orders").over(one_by_one.rowsBetween(Window.unboundedPreceding, -1))
    told = told.withColumn("first", f.least(f.coalesce(said_before, f.lit(0)) + 1, "orders"))
    right = told.join(given, ["user", "orders", "total"], "left_semi")
    wrong = told.join(given, ["user", "orders", "total"], "left_anti")

    each = right.select("user", f.explode(f.sequence("first", "orders")).alias("orders"))
    names = [
        given.select(f.concat_ws(" ", "user", "orders").alias("name"), f.lit(1).alias("s"), f.lit(0).alias("t")),
        each.select(f.concat_ws(" ", "user", "orders").alias("name"), f.lit(0).alias("s"), f.lit(1).alias("t")),
        wrong.select(
            f.format_string("%s: %d orders add up to %d", "user", "orders", "total").alias("name"), f.lit(0), f.lit(1)
        ),
    ]
    both = names[0].unionAll(names[1]).unionAll(names[2])
    return both.groupBy("name").agg(f.sum("s").alias("source"), f.sum("t").alias("target"))
