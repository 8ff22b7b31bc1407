"""Torn tails: which bytes at the end of a log a stop explains, and which are damage that no start may hide.

A killed process leaves at most the beginning of one batch behind the last whole one. A stopped machine may also have
lost any write that was not synced: the file is too short, or has zeros in place of data, perhaps with later batches
behind them. A stop explains nothing else, and loses nothing that was saved. Always true: this module only reads.
"""

from typing import Final, NamedTuple

from eosin.protocol.records.batch import HEADER_BYTES, MAGIC, BatchHeader, CorruptRecords, read_header, verify_crc
from eosin.storage.disk.interfaces import File

_MAGIC_AT: Final = 16
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_SECTOR_BYTES: Final = 512
"""Disks lose writes by sectors; a file system may make it pages, which are some of these."""
_OFFSET_SPAN: Final = 2**31


class _FoundBatch(NamedTuple):
    position: int
    header: BatchHeader


def check_tail(
    file: File,
    path: str,
    position: int,
    *,
    next_offset: int,
    saved_end: int = 0,
    same_boot: bool,
    has_later: bool,
    has_gaps: bool = False,
) -> None:
    """Raises CorruptRecords when the bytes from `position` on, where the batch of `next_offset` should be, are no torn
    tail. `saved_end`: everything below was saved. `same_boot`: the machine has not stopped since. `has_later`: the log
    goes on in further segments. `has_gaps`: the batch may begin behind `next_offset`.

    | the bytes | killed process | stopped machine |
    |---|---|---|
    | begin below `saved_end` | damage | damage |
    | are the whole batch with a wrong checksum | damage | as below |
    | have nothing valid behind them | torn | torn |
    | have records behind them, and the file is too short | damage | torn |
    | have records behind them, and a sector is zeros | damage | torn |
    | have records behind them, and no sector is zeros | damage | damage |
    """
    no_batch = f"{path} is damaged: no valid batch at byte {position} (offset {next_offset})"
    if next_offset < saved_end:
        raise CorruptRecords(f"{no_batch}, though everything below offset {saved_end} was saved")
    is_whole = _whole_batch(file, position, next_offset, has_gaps) is not None
    if is_whole and same_boot:
        raise CorruptRecords(
            f"{path} is damaged: the batch at byte {position} (offset {next_offset}) has a wrong checksum"
        )
    behind = _next_batch(file, position, next_offset)
    if behind is not None:
        if same_boot or not _has_lost_sector(file, position, behind.position, next_offset):
            where = f"there is a whole batch at byte {behind.position} (offset {behind.header.base_offset})"
            raise CorruptRecords(f"{no_batch}, but {where}")
    elif has_later:
        is_lost = not is_whole or _has_lost_sector(file, position, file.size, next_offset)
        if same_boot or not is_lost:
            raise CorruptRecords(f"{no_batch}, but segments with records follow it")


def _whole_batch(file: File, position: int, next_offset: int, has_gaps: bool) -> BatchHeader | None:
    """The header at `position`, if it is that of the expected batch and all of its bytes are there."""
    header = _plausible(bytes(file.read(position, HEADER_BYTES)), next_offset)
    if header is None or position + header.size > file.size:
        return None
    if header.base_offset != next_offset and not has_gaps:
        return None
    return header


def _plausible(head: bytes, next_offset: int) -> BatchHeader | None:
    if len(head) < HEADER_BYTES or head[_MAGIC_AT] != MAGIC:
        return None
    try:
        header = read_header(head)
    except CorruptRecords:
        return None
    return header if next_offset <= header.base_offset < next_offset + _OFFSET_SPAN else None


def _next_batch(file: File, position: int, next_offset: int) -> _FoundBatch | None:
    """The first valid batch after `position` that goes on with the log."""
    start = position + 1
    while file.size - start >= HEADER_BYTES:
        chunk = bytes(file.read(start, _CHUNK_BYTES + HEADER_BYTES))
        at = chunk.find(MAGIC, _MAGIC_AT)
        while at >= 0:
            begin = at - _MAGIC_AT
            header = _plausible(chunk[begin : begin + HEADER_BYTES], next_offset)
            if header is not None and start + begin + header.size <= file.size:
                data = bytes(file.read(start + begin, header.size))
                if verify_crc(data, 0, header):
                    return _FoundBatch(start + begin, header)
            at = chunk.find(MAGIC, at + 1)
        start += _CHUNK_BYTES
    return None


def _has_lost_sector(file: File, start: int, end: int, next_offset: int) -> bool:
    """True if a whole sector of zeros touches [start, end): also the one that `start` is in, from there on, where the
    batch of `next_offset` begins."""
    position = start
    first_bytes = next_offset.to_bytes(8) + (HEADER_BYTES - 12).to_bytes(4)  # its base offset, and the least length
    zeros = bytes(_SECTOR_BYTES)
    while position < end:
        sector_end = min(position - position % _SECTOR_BYTES + _SECTOR_BYTES, file.size)
        data = bytes(file.read(position, sector_end - position))
        if data == zeros[: len(data)]:
            has_less_than_it_had = position == start and any(first_bytes[: len(data)])
            if has_less_than_it_had or len(data) > _MAGIC_AT:
                return True
        position = sector_end
    return False
