"""`Array`: a count and as many elements (wire.md section 1)."""

from typing import IO, Any, Final

from eosin.protocol.codegen.nodes import Construct, DecodeError, Sized, holds_records, minimal_bytes, remaining


class Array(Sized):
    """A count, then that many elements; a tuple when read."""

    def __init__(self, element: Construct, flexible: bool, nullable: bool) -> None:
        super().__init__()
        self.element = element
        self.flexible = flexible
        self.nullable = nullable
        self.holds_records = holds_records(element)
        self.element_bytes: Final = minimal_bytes(element)
        assert self.element_bytes > 0, "a count of elements that take no bytes could claim any number of them"

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> tuple[Any, ...] | None:
        count = self._read_length(stream, context, path)
        if count is None:
            return None
        if count * self.element_bytes > remaining(stream):
            raise DecodeError(f"an array of {count} elements at {path} does not fit what is left of the message")
        return tuple(self.element._parsereport(stream, context, path) for _ in range(count))

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        self._write_length(None if obj is None else len(obj), stream, context, path)
        for element in obj or ():
            self.element._build(element, stream, context, path)
        return obj
