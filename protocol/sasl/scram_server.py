"""The server's side of a SCRAM exchange: one challenge, one proof (RFC 5802; security.md 3.4).

    first = read_client_first(message)                              # names the user, or is a Failure
    exchange = ScramServer(first, credential, server_nonce)         # a fake credential for a user who is not there
    exchange.challenge                                              # the bytes to send
    exchange.finish(message)                                        # Success with the bytes to send, or Failure

Always true: the credential is that of the beginning, whatever is changed meanwhile; one exchange accepts one proof.
"""

import hashlib
import hmac
from typing import Final

from eosin.protocol.sasl.scram_credentials import (
    MIN_ITERATIONS,
    ScramCredential,
    digest_bytes,
    hash_of,
    signature,
)
from eosin.protocol.sasl.scram_messages import ClientFirst, base64_of, read_client_final
from eosin.protocol.sasl.steps import Failure, Success

NONCE_BYTES: Final = 24
"""Random bytes of a server's nonce; it is their base64url."""


class ScramServer:
    """One exchange after the client's first message."""

    def __init__(self, first: ClientFirst, credential: ScramCredential, server_nonce: str) -> None:
        self.user: Final = first.user
        self._first = first
        self._credential = credential
        self._nonce = first.nonce + server_nonce
        self._is_over = False
        text = f"r={self._nonce},s={base64_of(credential.salt)},i={credential.iterations}"
        self.challenge: Final = text.encode()

    def finish(self, message: bytes) -> Success | Failure:
        """Check the client's proof, and answer with ours. Two HMACs and one hash: a few microseconds."""
        if self._is_over:
            return Failure("the exchange is over")
        self._is_over = True
        final = read_client_final(message)
        if isinstance(final, Failure):
            return final
        if final.channel_binding != self._first.gs2_header:
            return Failure("the last message has another GS2 header than the first")
        # librdkafka 0.0.99 to 2.6.0 puts its own nonce in front once more. Any prefix would do for Kafka since 3.7.2
        # (CVE-2024-56128 was no check at all); here exactly these two pass.
        if final.nonce not in (self._nonce, self._first.nonce + self._nonce):
            return Failure("the last message has another nonce than the challenge")
        mechanism, credential = self._credential.mechanism, self._credential
        if len(final.proof) != digest_bytes(mechanism):
            return Failure("the proof has another length than the mechanism's hash")
        auth_message = b",".join((self._first.bare, self.challenge, final.without_proof))
        mask = signature(mechanism, credential.stored_key, auth_message)
        client_key = bytes(a ^ b for a, b in zip(final.proof, mask, strict=True))
        is_right = hmac.compare_digest(hashlib.new(hash_of(mechanism), client_key).digest(), credential.stored_key)
        if not is_right:
            return Failure("the proof is wrong")
        if credential.iterations < MIN_ITERATIONS:
            return Failure(f"the stored credential has fewer than {MIN_ITERATIONS} iterations")
        return Success(f"v={base64_of(signature(mechanism, credential.server_key, auth_message))}".encode())
