"""zookeeper-server-start: a port that is open, for scripts that start a ZooKeeper beside the broker. Nothing is behind
it: it answers `ruok` with `imok`, and closes every connection else."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eosin.cli.kafka_programs.queries import Unanswerable
from eosin.cli.kafka_programs.words import parse_words
from eosin.protocol.properties import parse_properties

_PORT: Final = "2181"


def main(arguments: Sequence[str]) -> int:
    """Listen until the process is ended. Raises Unanswerable."""
    files = parse_words(arguments).rest
    port = _PORT
    if files:
        try:
            port = dict(parse_properties(Path(files[0]).read_text(encoding="utf-8"))).get("clientPort", _PORT)
        except (OSError, UnicodeDecodeError) as error:
            raise Unanswerable(f"cannot read {files[0]}: {getattr(error, 'strerror', error)}") from None
    if not port.isdigit() or int(port) > 65535:
        raise Unanswerable(f"clientPort must be a port, not {port!r}")
    try:
        asyncio.run(_listen(int(port)))
    except OSError as error:
        raise Unanswerable(f"cannot listen on {port}: {error.strerror or error}") from None
    except KeyboardInterrupt:
        pass
    return 0


async def _listen(port: int) -> None:
    server = await asyncio.start_server(_greet, host="0.0.0.0", port=port)
    async with server:
        await server.serve_forever()


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(5):
            if await reader.read(4) == b"ruok":
                writer.write(b"imok")
                await writer.drain()
    except (OSError, TimeoutError):
        pass
    finally:
        writer.close()
