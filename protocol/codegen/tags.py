"""Tagged fields: the optional ones that end a flexible struct (wire.md section 2, KIP-482)."""

import io
from typing import IO, Any, Final, NamedTuple

import construct

from eosin.protocol.codegen.nodes import UVARINT, Construct, DecodeError, remaining


class TaggedField(NamedTuple):
    """One tagged field of a layout."""

    name: str
    node: Construct
    tag: int


class TagSection(Construct):
    """The tagged fields that end a flexible struct: (tag, size, payload), tags ascending. Unknown ones are skipped."""

    def __init__(self, fields: tuple[TaggedField, ...], defaults: dict[str, Any]) -> None:
        super().__init__()
        self.by_tag: Final = {field.tag: field for field in fields}
        self.defaults: Final = defaults

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> dict[str, Any]:
        values = {}
        previous = -1
        for _ in range(UVARINT._parse(stream, context, path)):
            tag = UVARINT._parse(stream, context, path)
            size = UVARINT._parse(stream, context, path)
            if tag <= previous:
                raise DecodeError(f"tag {tag} after tag {previous} at {path}")
            previous = tag
            payload = io.BytesIO(construct.stream_read(stream, size, path))
            if (field := self.by_tag.get(tag)) is not None:
                values[field.name] = field.node._parsereport(payload, context, path)
                if remaining(payload):
                    raise DecodeError(f"tag {tag} leaves {remaining(payload)} of its {size} bytes over at {path}")
        return values

    def _build(self, obj: dict[str, Any], stream: IO[bytes], context: Any, path: str) -> Any:
        written = [field for field in self.by_tag.values() if obj[field.name] != self.defaults[field.name]]
        UVARINT._build(len(written), stream, context, path)
        for field in written:
            payload = io.BytesIO()
            field.node._build(obj[field.name], payload, context, path)
            UVARINT._build(field.tag, stream, context, path)
            UVARINT._build(len(payload.getvalue()), stream, context, path)
            stream.write(payload.getvalue())
        return obj
