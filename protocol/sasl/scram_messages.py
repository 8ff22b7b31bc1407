"""The messages of SCRAM as text, read strictly (RFC 5802 7; security.md 3.4). Nothing here knows a key.

A reader returns what the peer said, or a `Failure`. The pieces that go into AuthMessage are kept as the very bytes that
were on the wire: built again from their parts they could differ, and the signatures with them.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from eosin.protocol.sasl.steps import Failure

MAX_MESSAGE_BYTES: Final = 4096
MAX_NAME_CHARS: Final = 255
MAX_NONCE_CHARS: Final = 256

_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
"""Printable ASCII without the comma."""
_NAME: Final = re.compile(r"(?:[^,=\x00]|=2C|=3D)+")
_EXTENSION: Final = re.compile(r"[A-Za-z]+=[^\x00]+")
_DELEGATION_TOKEN: Final = "tokenauth=true"
"""Says that the user is a delegation token (KIP-48), which Eosin has none of."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message of a client."""

    gs2_header: bytes
    """With its last comma, as the client's last message must repeat it."""
    bare: bytes
    """The message behind that header."""
    user: str
    nonce: str


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """The answer of a server to it."""

    wire: bytes
    nonce: str
    """The client's and the server's."""
    salt: bytes
    iterations: int


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """The last message of a client."""

    without_proof: bytes
    channel_binding: bytes
    nonce: str
    proof: bytes


def escaped(name: str) -> str:
    """A user name as a message holds it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def read_client_first(message: bytes) -> ClientFirst | Failure:
    """Read `gs2-header n=USER,r=NONCE[,extensions]`. Another user to act as (authzid) must be the user himself:
    CVE-2017-12610 was this comparison missing. It is made here, before anybody asks whether the user exists."""
    text = _text(message)
    if text is None:
        return Failure("the first message is no text of a bounded length")
    flag, _, rest = text.partition(",")
    if flag.startswith("p="):
        return Failure("channel binding is not offered")
    if flag not in ("n", "y"):
        return Failure("the first message has no GS2 header")
    authzid_field, comma, bare = rest.partition(",")
    if not comma or (authzid_field and not authzid_field.startswith("a=")):
        return Failure("the first message has no GS2 header")
    fields = bare.split(",")
    if fields[0].startswith("m="):
        return Failure("the client demands an extension that is not known")
    if len(fields) < 2 or not fields[0].startswith("n=") or not fields[1].startswith("r="):
        return Failure("the first message has no user or no nonce")
    user, nonce = _name(fields[0][2:]), fields[1][2:]
    if user is None or not _is_nonce(nonce):
        return Failure("the first message has a malformed user or nonce")
    refusal = _refused_extensions(fields[2:])
    if refusal is not None:
        return refusal
    if authzid_field and _name(authzid_field[2:]) != user:
        return Failure("the client wants to act as another user")
    header = f"{flag},{authzid_field},".encode()
    return ClientFirst(header, message[len(header) :], user, nonce)


def read_server_first(message: bytes) -> ServerFirst | Failure:
    """Read `r=NONCE,s=SALT,i=ITERATIONS[,extensions]`."""
    text = _text(message)
    fields = text.split(",") if text is not None else []
    if len(fields) < 3 or [each[:2] for each in fields[:3]] != ["r=", "s=", "i="]:
        return Failure("the server's first message is malformed")
    nonce, salt, iterations = fields[0][2:], _unbase64(fields[1][2:]), fields[2][2:]
    if not _is_nonce(nonce, of=2) or not salt or not re.fullmatch(r"[1-9][0-9]{0,9}", iterations):
        return Failure("the server's first message is malformed")
    return ServerFirst(message, nonce, salt, int(iterations))


def read_client_final(message: bytes) -> ClientFinal | Failure:
    """Read `c=BINDING,r=NONCE[,extensions],p=PROOF`."""
    text = _text(message)
    without_proof, found, proof_text = (text or "").rpartition(",p=")
    fields = without_proof.split(",")
    if not found or len(fields) < 2 or not fields[0].startswith("c=") or not fields[1].startswith("r="):
        return Failure("the last message is malformed")
    binding, proof = _unbase64(fields[0][2:]), _unbase64(proof_text)
    # librdkafka up to 2.6.0 sends its own nonce twice: three parts.
    if binding is None or proof is None or not _is_nonce(fields[1][2:], of=3):
        return Failure("the last message is malformed")
    refusal = _refused_extensions(fields[2:])
    if refusal is not None:
        return refusal
    return ClientFinal(without_proof.encode(), binding, fields[1][2:], proof)


def read_server_final(message: bytes) -> bytes | Failure:
    """Read `v=SIGNATURE[,extensions]`, or the server's `e=ERROR`."""
    first = (_text(message) or "").split(",")[0]
    if first.startswith("e="):
        return Failure("the server refuses the proof")
    found = _unbase64(first[2:]) if first.startswith("v=") else None
    return found if found is not None else Failure("the server's last message is malformed")


def base64_of(data: bytes) -> str:
    """Bytes as messages hold them."""
    return base64.b64encode(data).decode()


def _text(message: bytes) -> str | None:
    if len(message) > MAX_MESSAGE_BYTES:
        return None
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _name(field: str) -> str | None:
    """A user name without its escapes; None when it is none."""
    if not _NAME.fullmatch(field):
        return None
    name = field.replace("=2C", ",").replace("=3D", "=")
    return name if len(name) <= MAX_NAME_CHARS else None


def _is_nonce(text: str, *, of: int = 1) -> bool:
    return len(text) <= of * MAX_NONCE_CHARS and _NONCE.fullmatch(text) is not None


def _unbase64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None


def _refused_extensions(fields: list[str]) -> Failure | None:
    """Extensions are ignored, but for one that changes who the user is."""
    if any(not _EXTENSION.fullmatch(each) for each in fields):
        return Failure("a message has a malformed extension")
    if _DELEGATION_TOKEN in (each.lower() for each in fields):
        return Failure("delegation tokens are not supported")
    return None
