"""Unsigned varints, and the skipping of tagged fields: what generated codecs call for the cases that are not inline."""

from typing import Final

from eosin.protocol.codegen.nodes import MAX_UNSIGNED_VARINT, DecodeError

Data = bytes | memoryview

MOST_TAGS: Final = 1000
"""Of one struct: no version of Kafka has more than a few, and to skip one costs as much as to make an element."""


def uvarint(number: int) -> bytes:
    """`number` (0 to 2^32 - 1) as an unsigned varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def rest_of_uvarint(first: int, data: Data, pos: int) -> tuple[int, int]:
    """The number whose first byte (128 or more) stands before `pos`, and the position after it."""
    number = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > MAX_UNSIGNED_VARINT:
                break
            return number, pos
    raise DecodeError("an unsigned varint has more than 32 bits")


def read_uvarint(data: Data, pos: int) -> tuple[int, int]:
    """The number at `pos`, and the position after it."""
    first = data[pos]
    return (first, pos + 1) if first < 0x80 else rest_of_uvarint(first, data, pos + 1)


def next_tag(data: Data, pos: int, size: int, previous: int) -> tuple[int, int, int]:
    """The tag at `pos`, and the start and the end of its payload.

    Tags ascend strictly, and a payload ends inside the message (wire.md section 2).
    """
    tag, pos = read_uvarint(data, pos)
    length, pos = read_uvarint(data, pos)
    if tag <= previous:
        raise DecodeError(f"tag {tag} after tag {previous}")
    if pos + length > size:
        raise DecodeError(f"tag {tag} claims {length} bytes, {size - pos} are left")
    return tag, pos, pos + length


def skip_tags(count: int, data: Data, pos: int, size: int) -> int:
    """The position after `count` tagged fields, none of which is known."""
    if count > MOST_TAGS:
        raise DecodeError(f"{count} tagged fields")
    tag = -1
    for _ in range(count):
        tag, _start, pos = next_tag(data, pos, size, tag)
    return pos
