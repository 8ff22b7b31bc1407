"""The rows of one task on their way to the process that commits: Arrow's stream format, compressed.

Always true: only the columns that are written travel; a task's rows keep their order.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from eosin.pipeline.common.errors import BadRows
from eosin.pipeline.sink.rows import COLUMNS, check_columns

_CODEC: Final = "lz4"


def written_columns(types: Iterable[tuple[str, str]], topic: str | None) -> tuple[str, ...]:
    """The columns to write, of pairs of name and short Spark type: others are dropped, and `topic` replaces the column
    of that name, as in Spark's own sink. Raises BadRows with what the frame lacks."""
    found = {name.lower(): (name, kind) for name, kind in types}
    kept = [found[name] for name in COLUMNS if name in found and not (name == "topic" and topic is not None)]
    if "value" not in found:
        names = ", ".join(name for name, _ in found.values())
        raise BadRows(f"the sink needs a column value, and the frame has {names or 'no columns'}")
    if topic is None and "topic" not in found:
        raise BadRows("a row needs a topic: set the option topic, or add a column topic")
    check_columns([(name.lower(), kind) for name, kind in kept], default_topic=topic)
    return tuple(name for name, _ in kept)


def packed(batches: Iterable[Any], columns: Iterable[str]) -> tuple[bytes, int]:
    """The rows of Arrow batches as bytes, and their number."""
    import pyarrow

    names = list(columns)
    rows = 0
    out = pyarrow.BufferOutputStream()
    writer = None
    for batch in batches:
        if not batch.num_rows:
            continue
        chosen = batch.select(names).rename_columns([name.lower() for name in names])
        if writer is None:
            # Spark gives a task as many cores as it may use: Arrow shall start no threads of its own.
            how = pyarrow.ipc.IpcWriteOptions(compression=_CODEC, use_threads=False)
            writer = pyarrow.ipc.new_stream(out, chosen.schema, options=how)
        writer.write_batch(chosen)
        rows += chosen.num_rows
    if writer is None:
        return b"", 0
    writer.close()
    return out.getvalue().to_pybytes(), rows


def unpacked(payload: bytes) -> Iterator[Any]:
    """The Arrow batches in what `packed` returned."""
    import pyarrow

    if payload:
        yield from pyarrow.ipc.open_stream(payload, options=pyarrow.ipc.IpcReadOptions(use_threads=False))
