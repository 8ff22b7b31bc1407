"""Workers of Spark acknowledge at once what Eosin's tasks are sent."""

import contextlib
import io
import os
import pickle
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from eosin.pipeline.common.prompt_worker import SentToTasks, acknowledge_at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has TCP_QUICKACK"),
]


class Function(SentToTasks):
    """What Spark would send."""

    def __init__(self) -> None:
        self.name = "a name"


def as_worker_of_spark(stream: Any, call: Callable[[], Any]) -> Any:
    """The result of a call in a main function like those of Spark's workers."""
    spark: dict[str, Any] = {"__package__": "pyspark.sql.worker"}
    exec("def main(infile, call):\n    return call()", spark)
    return spark["main"](stream, call)


def delays(connection: socket.socket) -> bool:
    """True if the system waits for an answer that can carry the acknowledgement."""
    return not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)


@contextlib.contextmanager
def worker_that_has_answered() -> Iterator[socket.socket]:
    """The worker's side of a connection over which it has answered before."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as java,
        server.accept()[0] as worker,
    ):
        while not delays(worker):
            java.sendall(b"task")
            worker.sendall(worker.recv(4))
            java.recv(4)
        yield worker


def test_what_spark_sends_after_a_function_is_acknowledged_at_once() -> None:
    sent = pickle.dumps(Function())
    with worker_that_has_answered() as worker, worker.makefile("rb") as stream:
        arrived = as_worker_of_spark(stream, lambda: pickle.loads(sent))
        assert not delays(worker)
        assert arrived.name == "a name"
        worker.sendall(b"the worker's connection is still open")


def test_a_function_that_arrives_elsewhere_arrives_as_usual() -> None:
    sent = pickle.dumps(Function())
    with worker_that_has_answered() as worker, worker.makefile("rb") as infile:
        assert pickle.loads(sent).name == "a name"
        assert delays(worker), "a stream of that name, but not in Spark's main function"
        assert infile.readable()
    assert not as_worker_of_spark(io.BytesIO(), acknowledge_at_once), "no connection"
    here, there = socket.socketpair()
    with here, there, here.makefile("rb") as stream:
        assert not as_worker_of_spark(stream, acknowledge_at_once), "Spark's Unix sockets"


def test_a_worker_in_which_sockets_time_out_goes_on_as_usual() -> None:
    with worker_that_has_answered() as worker, worker.makefile("rb") as stream:
        socket.setdefaulttimeout(60)
        try:
            as_worker_of_spark(stream, acknowledge_at_once)
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(worker.fileno())


def test_the_connection_of_a_worker_of_spark_is_found(spark: "SparkSession") -> None:
    def told(_: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        yield pyarrow.RecordBatch.from_pydict({"prompt": [acknowledge_at_once()]})

    made = spark.range(1, numPartitions=1).mapInArrow(told, "prompt boolean")
    assert [row.prompt for row in made.collect()] == [True]
