"""The ground that the nodes of declarations stand on: their errors, the varint, lengths, the message struct.

A declaration is built of a closed set of `construct` nodes: `Text` and `Blob` (text.py), `Array` (array.py), `Layout`,
`NullableStruct` and tagged fields (layout.py, tags.py), and construct's own integers, `Flag` and `Bytes(16)`. Each node
class reads and writes by interpretation, which is the readable reference; the code generator looks at the same
attributes. Layouts follow wire.md sections 1 and 2.
"""

import io
from typing import IO, TYPE_CHECKING, Any, Final, dataclass_transform

import construct
import msgspec

if TYPE_CHECKING:
    # construct's classes are generic in its stubs only; the types of values live in the message structs.
    Construct = construct.Construct[Any, Any]
    Adapter = construct.Adapter[Any, Any, Any, Any]
    Subconstruct = construct.Subconstruct[Any, Any, Any, Any]
else:
    Construct = construct.Construct
    Adapter = construct.Adapter
    Subconstruct = construct.Subconstruct

Buffer = bytes | bytearray | memoryview

Records = Buffer | None
"""A field of record batches. Decoded, it is a view into the frame, never a copy."""

MAX_UNSIGNED_VARINT: Final = 0xFFFFFFFF


class DecodeError(Exception):
    """The bytes are not a message: the peer is broken or hostile, and its connection is closed."""


class ManyElements(DecodeError):
    """The message has more elements than whoever decodes it has time for. It may be right for all that."""


class EncodeError(Exception):
    """The message does not fit its layout: a null or a number where the version has no room for it."""


@dataclass_transform(frozen_default=True)
class Message(msgspec.Struct, frozen=True, gc=False):
    """A message, or a struct inside one: an immutable value with every field defaulted.

    `gc=False` because messages are trees that hold no cycles, and the collector would walk every one of them.
    """


class SecretMessage(Message, frozen=True, gc=False):
    """A message that holds what no log line and no traceback may show (security.md 6.3.3)."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}([hidden])"


class Measured:
    """A node that knows how little room it takes, and whether record batches are in it."""

    holds_records: bool = False
    """True if a field of record batches is anywhere in it."""

    @property
    def minimal_bytes(self) -> int:
        """The fewest bytes that a value takes."""
        raise NotImplementedError


def minimal_bytes(node: Construct) -> int:
    """The fewest bytes that a value of `node` takes: what an element of an array must at least have left."""
    return node.minimal_bytes if isinstance(node, Measured) else node.sizeof()


def holds_records(node: Construct) -> bool:
    """True if a field of record batches is anywhere in `node`."""
    return isinstance(node, Measured) and node.holds_records


class UnsignedVarint(Construct):
    """A 32-bit number, seven bits a byte, low group first; at most five bytes."""

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> int:
        number = 0
        for shift in range(0, 35, 7):
            byte = construct.stream_read(stream, 1, path)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number > MAX_UNSIGNED_VARINT:
                    break
                return number
        raise DecodeError("an unsigned varint has more than 32 bits")

    def _build(self, obj: int, stream: IO[bytes], context: Any, path: str) -> int:
        number = obj
        while number > 0x7F:
            stream.write(bytes((number & 0x7F | 0x80,)))
            number >>= 7
        stream.write(bytes((number,)))
        return obj


UVARINT: Final = UnsignedVarint()


class Sized(Construct, Measured):
    """A node that starts with a length or is null: text, bytes and arrays."""

    flexible: bool
    nullable: bool
    legacy_length: Construct = construct.Int32sb

    @property
    def minimal_bytes(self) -> int:
        """An empty value is its length alone."""
        return 1 if self.flexible else self.legacy_length.sizeof()

    def _read_length(self, stream: IO[bytes], context: Any, path: str) -> int | None:
        """The length, or None for null. Refuses null where none may be, and every other negative length."""
        if self.flexible:
            length = UVARINT._parse(stream, context, path) - 1
        else:
            length = self.legacy_length._parse(stream, context, path)
        if length >= 0:
            return length
        if length != -1 or not self.nullable:
            raise DecodeError(f"length {length} at {path}")
        return None

    def _write_length(self, length: int | None, stream: IO[bytes], context: Any, path: str) -> None:
        if length is None and not self.nullable:
            raise EncodeError(f"null at {path}")
        number = -1 if length is None else length
        if self.flexible:
            UVARINT._build(number + 1, stream, context, path)
        else:
            self.legacy_length._build(number, stream, context, path)


def remaining(stream: IO[bytes]) -> int:
    """Bytes between the position of `stream` and its end."""
    position = stream.tell()
    end = stream.seek(0, io.SEEK_END)
    stream.seek(position)
    return end - position
