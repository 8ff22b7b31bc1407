"""What declarations are made of: the closed set of `construct` nodes, and the errors that they raise.

Each node class reads and writes by interpretation here, which is the readable reference; the code generator looks at
the same attributes. Besides these classes only construct's integers, `Flag` and `Bytes(16)` occur in a declaration.
Layouts follow wire.md sections 1 and 2.
"""

import io
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, dataclass_transform

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

MAX_STRING_BYTES: Final = 32767
"""The longest string in encoded bytes, in compact form too."""

MAX_UNSIGNED_VARINT: Final = 0xFFFFFFFF


class DecodeError(Exception):
    """The bytes are not a message: the peer is broken or hostile, and its connection is closed."""


class EncodeError(Exception):
    """The message does not fit its layout: a null or a number where the version has no room for it."""


@dataclass_transform(frozen_default=True)
class Message(msgspec.Struct, frozen=True, gc=False):
    """A message, or a struct inside one: an immutable value with every field defaulted.

    `gc=False` because messages are trees that hold no cycles, and the collector would walk every one of them.
    """


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


_UVARINT: Final = UnsignedVarint()


class _Sized(Construct):
    """What starts with a length or is null: the parts that text, bytes and arrays share."""

    flexible: bool
    nullable: bool
    legacy_length: Construct = construct.Int32sb

    def _read_length(self, stream: IO[bytes], context: Any, path: str) -> int | None:
        """The length, or None for null. Refuses null where none may be, and every other negative length."""
        if self.flexible:
            length = _UVARINT._parse(stream, context, path) - 1
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
            _UVARINT._build(number + 1, stream, context, path)
        else:
            self.legacy_length._build(number, stream, context, path)


class Text(_Sized):
    """A string: UTF-8 behind an int16 length, or behind a compact one."""

    legacy_length = construct.Int16sb

    def __init__(self, flexible: bool, nullable: bool) -> None:
        super().__init__()
        self.flexible = flexible
        self.nullable = nullable

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> str | None:
        length = self._read_length(stream, context, path)
        if length is None:
            return None
        if length > MAX_STRING_BYTES:
            raise DecodeError(f"a string of {length} bytes at {path}")
        try:
            return str(construct.stream_read(stream, length, path), "utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError(f"a string that is not UTF-8 at {path}") from error

    def _build(self, obj: str | None, stream: IO[bytes], context: Any, path: str) -> Any:
        try:
            encoded = None if obj is None else obj.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(f"a string that has no UTF-8 form at {path}") from error
        if encoded is not None and len(encoded) > MAX_STRING_BYTES:
            raise EncodeError(f"a string of {len(encoded)} bytes at {path}")
        self._write_length(None if encoded is None else len(encoded), stream, context, path)
        stream.write(encoded or b"")
        return obj


class Blob(_Sized):
    """Bytes behind an int32 or a compact length. Record fields are read as views and written uncopied when large."""

    def __init__(self, flexible: bool, nullable: bool, holds_records: bool) -> None:
        super().__init__()
        self.flexible = flexible
        self.nullable = nullable
        self.holds_records = holds_records

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> bytes | memoryview | None:
        length = self._read_length(stream, context, path)
        if length is None:
            return None
        content = construct.stream_read(stream, length, path)
        return memoryview(content) if self.holds_records else content

    def _build(self, obj: Records, stream: IO[bytes], context: Any, path: str) -> Any:
        self._write_length(None if obj is None else len(obj), stream, context, path)
        stream.write(obj if obj is not None else b"")
        return obj


class Array(_Sized):
    """A count, then that many elements; a tuple when read."""

    def __init__(self, element: Construct, flexible: bool, nullable: bool) -> None:
        super().__init__()
        self.element = element
        self.flexible = flexible
        self.nullable = nullable
        self.element_bytes: Final = minimal_bytes(element)
        assert self.element_bytes > 0, "a count of elements that take no bytes could claim any number of them"

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> tuple[Any, ...] | None:
        count = self._read_length(stream, context, path)
        if count is None:
            return None
        if count * self.element_bytes > _remaining(stream):
            raise DecodeError(f"an array of {count} elements at {path} does not fit what is left of the message")
        return tuple(self.element._parsereport(stream, context, path) for _ in range(count))

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        self._write_length(None if obj is None else len(obj), stream, context, path)
        for element in obj or ():
            self.element._build(element, stream, context, path)
        return obj


class NullableStruct(Subconstruct):
    """A struct that may be absent: int8 -1, or int8 1 and the struct."""

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> Any:
        marker = construct.Int8sb._parse(stream, context, path)
        if marker == -1:
            return None
        if marker != 1:
            raise DecodeError(f"the marker of a nullable struct is {marker} at {path}")
        return self.subcon._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        construct.Int8sb._build(-1 if obj is None else 1, stream, context, path)
        if obj is not None:
            self.subcon._build(obj, stream, context, path)
        return obj


class Tagged(Subconstruct):
    """Marks a field as one of its struct's tagged fields: absent from the wire while it has its default."""

    def __init__(self, tag: int, subcon: Construct) -> None:
        super().__init__(subcon)
        self.tag: Final = tag


class Field(NamedTuple):
    """One named field of a layout."""

    name: str
    node: Construct

    @classmethod
    def of(cls, renamed: Construct) -> "Field":
        """The field behind construct's `"name" / node`."""
        assert isinstance(renamed, construct.Renamed)
        assert renamed.name is not None
        return cls(renamed.name, renamed.subcon)


class TaggedField(NamedTuple):
    """One tagged field of a layout."""

    name: str
    node: Construct
    tag: int


class _TagSection(Construct):
    """The tagged fields that end a flexible struct: (tag, size, payload), tags ascending. Unknown ones are skipped."""

    def __init__(self, fields: tuple[TaggedField, ...], defaults: dict[str, Any]) -> None:
        super().__init__()
        self.by_tag: Final = {field.tag: field for field in fields}
        self.defaults: Final = defaults

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> dict[str, Any]:
        values = {}
        previous = -1
        for _ in range(_UVARINT._parse(stream, context, path)):
            tag = _UVARINT._parse(stream, context, path)
            size = _UVARINT._parse(stream, context, path)
            if tag <= previous:
                raise DecodeError(f"tag {tag} after tag {previous} at {path}")
            previous = tag
            payload = io.BytesIO(construct.stream_read(stream, size, path))
            if (field := self.by_tag.get(tag)) is not None:
                values[field.name] = field.node._parsereport(payload, context, path)
                if _remaining(payload):
                    raise DecodeError(f"tag {tag} leaves {_remaining(payload)} of its {size} bytes over at {path}")
        return values

    def _build(self, obj: dict[str, Any], stream: IO[bytes], context: Any, path: str) -> Any:
        written = [field for field in self.by_tag.values() if obj[field.name] != self.defaults[field.name]]
        _UVARINT._build(len(written), stream, context, path)
        for field in written:
            payload = io.BytesIO()
            field.node._build(obj[field.name], payload, context, path)
            _UVARINT._build(field.tag, stream, context, path)
            _UVARINT._build(len(payload.getvalue()), stream, context, path)
            stream.write(payload.getvalue())
        return obj


class Layout(Adapter):
    """The bytes of one message struct at one version. Fields that the version lacks take their defaults."""

    def __init__(self, struct: type[Message], flexible: bool, fields: tuple[Construct, ...]) -> None:
        named = [Field.of(field) for field in fields]
        self.struct: Final = struct
        self.flexible: Final = flexible
        self.plain: Final = tuple(field for field in named if not isinstance(field.node, Tagged))
        self.tagged: Final = tuple(
            TaggedField(name, node.subcon, node.tag) for name, node in named if isinstance(node, Tagged)
        )
        self.defaults: Final = {field.name: field.default for field in msgspec.structs.fields(struct)}
        tags = [field.tag for field in self.tagged]
        assert flexible or not tags, "only flexible versions have tagged fields"
        assert tags == sorted(set(tags)), "tagged fields are declared in the order of their tags"
        assert not any(isinstance(field.node, NullableStruct) for field in self.tagged), (
            "null is said otherwise in a tag"
        )
        assert {field.name for field in named} <= self.defaults.keys(), f"{struct.__name__} lacks a declared field"
        section = ["_tags" / _TagSection(self.tagged, self.defaults)] if flexible else []
        super().__init__(construct.Struct(*(name / node for name, node in self.plain), *section))

    def _decode(self, obj: Any, context: Any, path: str) -> Message:
        values = {field.name: obj[field.name] for field in self.plain}
        return self.struct(**values, **obj.get("_tags", {}))

    def _encode(self, obj: Message, context: Any, path: str) -> dict[str, Any]:
        values = {field.name: getattr(obj, field.name) for field in self.plain}
        return {**values, "_tags": {field.name: getattr(obj, field.name) for field in self.tagged}}


def _remaining(stream: IO[bytes]) -> int:
    position = stream.tell()
    end = stream.seek(0, io.SEEK_END)
    stream.seek(position)
    return end - position


def minimal_bytes(node: Construct) -> int:
    """The fewest bytes that a value of `node` takes: what an element of an array must at least have left."""
    match node:
        case Layout():
            return sum(minimal_bytes(field.node) for field in node.plain) + node.flexible
        case Text() | Blob() | Array():
            return 1 if node.flexible else node.legacy_length.sizeof()
        case NullableStruct():
            return 1
        case _:
            return node.sizeof()


def holds_records(node: Construct) -> bool:
    """Whether a field of record batches is anywhere in `node`."""
    match node:
        case Layout():
            return any(holds_records(field.node) for fields in (node.plain, node.tagged) for field in fields)
        case Array():
            return holds_records(node.element)
        case NullableStruct():
            return holds_records(node.subcon)
        case _:
            return isinstance(node, Blob) and node.holds_records
