"""The vocabulary in which every message is declared, under `schemas/`.

A message is a struct, and each of its fields says all about itself in one line: its name, its type on the wire, the
versions that have it and its default (`codegen/declaration.py` has the form). From it `ApiSchema` and `RecordSchema`
make a `Layout` for one version, a `construct` object, which is used twice: construct's interpreter is the readable
reference, and the code generator turns the same object into specialised functions.

| type of a field | on the wire |
|---|---|
| `Int8`, `Int16`, `Int32`, `Int64`, `Uint16`, `float` | a number of that size |
| `bool` | a byte, 0 or 1; any other is read as true |
| `Uuid` | 16 bytes |
| `str` | a string of at most 32767 encoded bytes |
| `bytes` | bytes that mean nothing to this protocol; copied out of the frame when read |
| `Records` | record batches: always nullable, never copied |
| `tuple[X, ...]` | an array |
| a struct | its fields in a row; behind a marker if it may be null |

A version is flexible from `flexible_from` on (KIP-482): there lengths are compact (an unsigned varint of length + 1, so
that 0 is null) and every struct ends with a section of tagged fields.
"""

from dataclasses import dataclass
from typing import Annotated

import construct

from eosin.protocol.codegen.declaration import Nullable, Tag, layout_of
from eosin.protocol.codegen.layout import Layout
from eosin.protocol.codegen.nodes import Buffer, DecodeError, EncodeError, Message, Records, SecretMessage
from eosin.protocol.keys import ApiKey

__all__ = [
    "ApiSchema",
    "Buffer",
    "DecodeError",
    "EncodeError",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Layout",
    "Message",
    "Nullable",
    "RecordKind",
    "RecordSchema",
    "Records",
    "SecretMessage",
    "Tag",
    "Uint16",
    "Uuid",
]

Int8 = Annotated[int, construct.Int8sb]
Int16 = Annotated[int, construct.Int16sb]
Int32 = Annotated[int, construct.Int32sb]
Int64 = Annotated[int, construct.Int64sb]
Uint16 = Annotated[int, construct.Int16ub]
Uuid = Annotated[bytes, construct.Bytes(16)]


@dataclass(frozen=True, slots=True)
class ApiSchema:
    """One API as it is declared: every version of its request and of its response."""

    key: ApiKey
    versions: range
    flexible_from: int | None
    """The first flexible version; None when there is none."""
    request: type[Message]
    response: type[Message]

    def is_flexible(self, version: int) -> bool:
        """True if `version` uses compact lengths, tagged fields and the flexible headers."""
        return self.flexible_from is not None and version >= self.flexible_from

    def request_layout(self, version: int) -> Layout:
        """The request at `version`."""
        return layout_of(self.request, version, flexible=self.is_flexible(version))

    def response_layout(self, version: int) -> Layout:
        """The response at `version`."""
        return layout_of(self.response, version, flexible=self.is_flexible(version))


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """A struct behind an int16 version: a key or a value of an internal log, or a subscription inside a request."""

    struct: type[Message]
    versions: range
    flexible_from: int | None
    """The first flexible version; None when there is none."""
    tolerant: bool = False
    """A reader takes a newer version for the newest it knows, and leaves the bytes after it unread."""

    def layout(self, version: int) -> Layout:
        """The struct at `version`."""
        flexible = self.flexible_from is not None and version >= self.flexible_from
        return layout_of(self.struct, version, flexible=flexible)


@dataclass(frozen=True, slots=True)
class RecordKind:
    """A key of an internal log, and the value that records of that key have."""

    key: RecordSchema
    value: RecordSchema
