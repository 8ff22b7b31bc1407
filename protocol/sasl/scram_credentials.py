"""A server's knowledge of a SCRAM password, and the arithmetic between the two (RFC 5802 3, RFC 7677; security.md 3.4).

Always true: a credential does not tell the password, and nothing here keeps one. PBKDF2 takes milliseconds (2 ms for
4096 rounds of SHA-512), so who asks for it often does so in a thread; everything else takes microseconds.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from eosin.protocol.sasl.steps import Mechanism

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""The most that Kafka stores; a client takes more (`scram_client.MAX_ITERATIONS`)."""
SALT_BYTES: Final = 24
"""Of the salts that we make."""

_HASHES: Final = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
_CLIENT_KEY: Final = b"Client Key"
_SERVER_KEY: Final = b"Server Key"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The stored form of one user's password for one mechanism."""

    mechanism: Mechanism
    salt: bytes
    stored_key: bytes
    """H(ClientKey): tells whether a proof is right, and cannot make one."""
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential({self.mechanism}, iterations={self.iterations}, [hidden])"


def hash_of(mechanism: Mechanism) -> str:
    """The name of the hash function of a SCRAM mechanism, as `hashlib` has it."""
    return _HASHES[mechanism]


def digest_bytes(mechanism: Mechanism) -> int:
    """The length of a SCRAM mechanism's keys, proofs and signatures."""
    return hashlib.new(_HASHES[mechanism]).digest_size


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of the password's UTF-8 bytes as they are: no SASLprep, as Kafka. As good as the password itself."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode("utf-8"), salt, iterations)


def client_key(mechanism: Mechanism, salted: bytes) -> bytes:
    """The key that a client proves to have."""
    return hmac.digest(salted, _CLIENT_KEY, _HASHES[mechanism])


def server_key(mechanism: Mechanism, salted: bytes) -> bytes:
    """The key that a server proves to have."""
    return hmac.digest(salted, _SERVER_KEY, _HASHES[mechanism])


def signature(mechanism: Mechanism, key: bytes, auth_message: bytes) -> bytes:
    """HMAC of an exchange's messages under a key: StoredKey for the client's proof, ServerKey for the server's."""
    return hmac.digest(key, auth_message, _HASHES[mechanism])


def credential_of_salted(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential to store, from a salted password as AlterUserScramCredentials carries it."""
    stored_key = hashlib.new(_HASHES[mechanism], client_key(mechanism, salted)).digest()
    return ScramCredential(mechanism, salt, stored_key, server_key(mechanism, salted), iterations)


def credential_of(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """The credential to store for a password. Runs PBKDF2."""
    return credential_of_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def is_password_of(credential: ScramCredential, password: str) -> bool:
    """True if this is the password behind a credential. Runs PBKDF2; takes as long for a wrong one."""
    mechanism = credential.mechanism
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    stored_key = hashlib.new(_HASHES[mechanism], client_key(mechanism, salted)).digest()
    return hmac.compare_digest(stored_key, credential.stored_key)


def fake_credential(
    secret: bytes, mechanism: Mechanism, user: str, iterations: int = MIN_ITERATIONS
) -> ScramCredential:
    """The credential of a user who is not there: the same each time, and no password fits it.

    So an exchange with it looks like any other until it fails at its end, and names cannot be tried out. `secret` are
    bytes that only this cluster knows. StoredKey comes out of an HMAC: nobody has a key whose hash it is.
    """

    def derived(part: bytes) -> bytes:
        # The name comes last: the parts before it hold no NUL.
        return hmac.digest(secret, b"\0".join((part, mechanism.encode(), user.encode("utf-8"))), _HASHES[mechanism])

    return ScramCredential(mechanism, derived(b"salt")[:SALT_BYTES], derived(b"stored"), derived(b"server"), iterations)
