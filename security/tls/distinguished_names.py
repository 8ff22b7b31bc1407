"""The name in a certificate as Apache Kafka writes it: Java's `X500Principal.getName()`, RFC 2253, byte for byte, since
rights are granted to it (security.md 3.7.2).

It is written from the certificate's own bytes: what a library makes of them has lost which string type a value had, and
the bytes of values that are no strings.
"""

from collections.abc import Iterator
from typing import Final

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""RFC 2253's own; every other type is written by its number."""

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OID: Final = 0x06
_VERSION: Final = 0xA0
_BMP: Final = 0x1E
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, _BMP})
"""UTF8, Printable, Teletex, IA5, General and BMP; a value of any other type is written as its bytes."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_MAX_BYTES: Final = 65_535


class UnusableName(Exception):
    """A name that is not taken for anybody's; the text says why."""


def subject_of(certificate: bytes) -> bytes:
    """The DER of the subject's Name in the DER of a certificate. Raises UnusableName."""
    try:
        signed, *_ = _all(_only(certificate, _SEQUENCE))
        fields = _all(signed[1])
        # A version, where there is one, stands before serial number, signature, issuer, validity and subject.
        return fields[5 if fields[0][0] == _VERSION else 4][2]
    except (IndexError, ValueError):
        raise UnusableName("the certificate cannot be read") from None


def rfc2253(name: bytes) -> str:
    """The DER of a Name as text: the last part first. Raises UnusableName."""
    if len(name) > _MAX_BYTES:
        raise UnusableName("the name is too long")
    try:
        parts = ["+".join(_parts(value)) for value in _elements(_only(name, _SEQUENCE), _SET)]
    except (IndexError, ValueError):
        raise UnusableName("the name cannot be read") from None
    return ",".join(reversed(parts))


def _parts(value: bytes) -> Iterator[str]:
    """`TYPE=value` for each part of a set; nearly always one."""
    for part in _elements(value, _SEQUENCE):
        (kind, oid, _), (tag, content, whole) = _all(part)
        if kind != _OID:
            raise ValueError
        number = _dotted(oid)
        keyword = KEYWORDS.get(number)
        if keyword is None or tag not in _STRINGS:
            yield f"{keyword or number}=#{whole.hex()}"
        else:
            yield f"{keyword}={_text(tag, content)}"


def _text(tag: int, content: bytes) -> str:
    """A value as Java writes it, which takes the bytes of every type of string for UTF-8 (JDK sun.security.x509.AVA).
    Where that loses something, two names would be one, so such a name is refused."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UnusableName("the name has a value that is not UTF-8") from None
    read = content.decode("utf-16-be") if tag == _BMP else text
    if any(ord(character) < 32 or ord(character) == 127 for character in read):
        raise UnusableName("the name has a control character")
    return _escaped(text).replace("\0", "\\00")


def _escaped(text: str) -> str:
    """Special characters get a backslash, and blanks at either end."""
    first = len(text) - len(text.lstrip(" "))
    last = len(text.rstrip(" "))
    return "".join(
        f"\\{character}" if character in _ESCAPED or not first <= at < last else character
        for at, character in enumerate(text)
    )


def _dotted(oid: bytes) -> str:
    numbers, value = list[int](), 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


# DER, as far as names need it


def _all(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Tag, content and all bytes of each element. Raises ValueError and IndexError."""
    found, at = [], 0
    while at < len(data):
        tag, length, start = data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            if not 0 < count <= 3:
                raise ValueError
            length = int.from_bytes(data[start : start + count], "big")
            start += count
        end = start + length
        if end > len(data):
            raise ValueError
        found.append((tag, data[start:end], data[at:end]))
        at = end
    return found


def _elements(data: bytes, tag: int) -> Iterator[bytes]:
    for found, content, _ in _all(data):
        if found != tag:
            raise ValueError
        yield content


def _only(data: bytes, tag: int) -> bytes:
    (content,) = _elements(data, tag)
    return content
