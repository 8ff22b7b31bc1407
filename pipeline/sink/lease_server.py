"""The driver's side of leases: a socket at which the tasks of one batch ask for partitions.

Owns the connections of the tasks. Always true: the `LeaseBook` decides all answers and their order; a connection
without the batch's secret is closed; and when the batch is given up, every task is told the reason.

Each message is a line of JSON. From a task: `{"secret": s, "begin": task}`, `{"take": partition}`, `{"free": partition,
"sequence": next}`, `{"done": rows, "retries": n}`, `{"failed": why, "code": error code or null}`. From the driver:
`{"begun": task}`, `{"taken": partition, "sequence": next}`, `{"done": rows}`, `{"refused": why}`, `{"given_up": why}`.
"""

import asyncio
import hmac
import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

from eosin.client.errors import known_code
from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.sink.lease_book import LeaseBook, WriteRefused, WritesStopped

LONGEST_REASON: Final = 4_000
"""Characters of a reason in a message: JSON writes up to 12 bytes for each, and a line may have 64 KiB."""


def shortened(reason: str) -> str:
    """`reason`, without its middle if it is too long for a line: the end of a long error is worth most."""
    if len(reason) <= LONGEST_REASON:
        return reason
    half = LONGEST_REASON // 2 - 4
    return f"{reason[:half]} [...] {reason[-half:]}"


@dataclass(frozen=True, slots=True)
class LeaseAddress:
    """The address at which tasks ask for leases, and the secret that admits them."""

    host: str
    port: int
    secret: str


class LeaseServer:
    """Answers the tasks of one batch, between `start` and `close`. Belongs to one event loop."""

    def __init__(self, secret: str | None = None) -> None:
        """`secret` admits the tasks of this batch and of no other one; without it, there is a new one."""
        self.book: Final = LeaseBook()
        self._secret = secret or uuid.uuid4().hex
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.StreamWriter, int] = {}

    async def start(self, host: str, bind: str, port: int = 0) -> LeaseAddress:
        """Listen at `bind`, which tasks reach as `host`; port 0 is any free port. Raises ConflictingSettings."""
        try:
            self._server = await asyncio.start_server(self._serve, bind, port)
        except (OSError, OverflowError) as error:
            raise ConflictingSettings(
                f"the driver cannot listen for its tasks at {bind}:{port} ({error}): set lease.port to a free port, or"
                " spark.driver.bindAddress to an address of this machine"
            ) from error
        return LeaseAddress(host, self._server.sockets[0].getsockname()[1], self._secret)

    async def close(self) -> None:
        """Close every connection. A task that is still running is not part of the batch."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._tasks):
                writer.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self._accept(json.loads(line), writer)
        except WritesStopped as given_up:
            self._send(writer, {"given_up": str(given_up)})
        except WriteRefused as refused:
            self._send(writer, {"refused": str(refused)})
        except (ConnectionError, ValueError, KeyError, TypeError):
            pass  # the connection was lost, or its peer is not a task
        finally:
            self._leave(writer)
            writer.close()

    def _accept(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if writer not in self._tasks:
            if not hmac.compare_digest(asked["secret"], self._secret):
                raise ValueError("a stranger")
            self.book.begin(asked["begin"])
            self._tasks[writer] = asked["begin"]
            self._send(writer, {"begun": asked["begin"]})
            return
        task = self._tasks[writer]
        if "take" in asked:
            partition = asked["take"]
            self.book.request(
                task, partition, lambda sequence: self._send(writer, {"taken": partition, "sequence": sequence})
            )
        elif "free" in asked:
            self.book.free(task, asked["free"], asked["sequence"])
        elif "done" in asked:
            self.book.done(task, asked["done"], asked["retries"])
            self._send(writer, {"done": asked["done"]})
        else:
            self.book.fail(task, asked["failed"], None if asked["code"] is None else known_code(asked["code"]))

    def _leave(self, writer: asyncio.StreamWriter) -> None:
        task = self._tasks.pop(writer, None)
        if task is None:
            return
        self.book.gone(task)
        try:
            self.book.check()
        except WritesStopped as given_up:
            for other in self._tasks:
                self._send(other, {"given_up": str(given_up)})

    @staticmethod
    def _send(writer: asyncio.StreamWriter, said: dict[str, Any]) -> None:
        if not writer.is_closing():
            writer.write(json.dumps(said).encode() + b"\n")
