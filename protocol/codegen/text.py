"""`Text` and `Blob`: strings and bytes behind a length (wire.md section 1)."""

from typing import IO, Any, Final

import construct

from eosin.protocol.codegen.nodes import DecodeError, EncodeError, Records, Sized

MAX_STRING_BYTES: Final = 32767
"""The longest string in encoded bytes, in compact form too."""


class Text(Sized):
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


class Blob(Sized):
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
