"""The vocabulary in which every message is declared, under `schemas/`.

A declaration is a function from a version to a `construct` object. It is the single description of a message, and it is
used twice: construct's interpreter is the readable reference, and the code generator turns the same object into
specialised functions.

`flexible` is true from the version on (KIP-482) in which lengths are compact (an unsigned varint of length + 1, so that
0 is null) and every struct ends with a section of tagged fields.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import construct

from eosin.protocol.codegen.array import Array
from eosin.protocol.codegen.layout import Layout, NullableStruct
from eosin.protocol.codegen.nodes import Buffer, Construct, DecodeError, EncodeError, Message, Records, SecretMessage
from eosin.protocol.codegen.tags import Tagged
from eosin.protocol.codegen.text import Blob, Text
from eosin.protocol.keys import ApiKey

__all__ = [
    "ApiSchema",
    "Boolean",
    "Buffer",
    "DecodeError",
    "EncodeError",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Layout",
    "Message",
    "RecordKind",
    "RecordSchema",
    "Records",
    "SecretMessage",
    "Uint16",
    "Uuid",
    "array",
    "blob",
    "message",
    "nullable_struct",
    "records",
    "string",
    "tagged",
    "when",
]

Int8: Final = construct.Int8sb
Int16: Final = construct.Int16sb
Int32: Final = construct.Int32sb
Int64: Final = construct.Int64sb
Uint16: Final = construct.Int16ub
Float64: Final = construct.Float64b
Boolean: Final = construct.Flag
"""Written as 0 or 1; any non-zero byte is read as true."""
Uuid: Final = construct.Bytes(16)


def string(flexible: bool, *, nullable: bool = False) -> Construct:
    """A string of at most 32767 encoded bytes."""
    return Text(flexible, nullable)


def blob(flexible: bool, *, nullable: bool = False) -> Construct:
    """Bytes that mean nothing to this protocol; copied out of the frame when read."""
    return Blob(flexible, nullable, holds_records=False)


def records(flexible: bool) -> Construct:
    """Record batches: always nullable, never copied."""
    return Blob(flexible, nullable=True, holds_records=True)


def array(element: Construct, flexible: bool, *, nullable: bool = False) -> Construct:
    """A sequence of one kind of element."""
    return Array(element, flexible, nullable)


def nullable_struct(layout: Construct) -> Construct:
    """A struct that may be null."""
    return NullableStruct(layout)


def tagged(tag: int, node: Construct) -> Construct:
    """A field of the tag section. What is equal to its default is not written."""
    return Tagged(tag, node)


def when(present: bool, *fields: Construct) -> Iterator[Construct]:
    """`fields` when the version has them."""
    return iter(fields if present else ())


def message(struct: type[Message], flexible: bool, *fields: Construct) -> Layout:
    """The layout of `struct`: its fields in wire order, each named as in the struct."""
    return Layout(struct, flexible, fields)


@dataclass(frozen=True, slots=True)
class ApiSchema:
    """One API as it is declared: every version of its request and of its response."""

    key: ApiKey
    versions: range
    flexible_from: int | None
    """The first flexible version; None when there is none."""
    request: Callable[[int], Layout]
    response: Callable[[int], Layout]

    def is_flexible(self, version: int) -> bool:
        """Whether `version` uses compact lengths, tagged fields and the flexible headers."""
        return self.flexible_from is not None and version >= self.flexible_from


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A struct behind an int16 version: a key or a value of an internal log, or a subscription inside a request."""

    struct: type[Message]
    versions: range
    layout: Callable[[int], Layout]
    tolerant: bool = False
    """Whether a reader takes a newer version for the newest it knows, and leaves the bytes after it unread."""


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A key of an internal log, and the value that records of that key have."""

    key: RecordSchema
    value: RecordSchema
