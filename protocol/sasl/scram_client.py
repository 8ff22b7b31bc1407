"""The client's side of a SCRAM exchange: the server must prove that it knows the password's keys, too (RFC 5802)."""

import hashlib
import hmac
from typing import Final

from eosin.protocol.sasl.scram_credentials import (
    MIN_ITERATIONS,
    client_key,
    hash_of,
    salted_password,
    server_key,
    signature,
)
from eosin.protocol.sasl.scram_messages import (
    ServerFirst,
    base64_of,
    escaped,
    read_server_final,
    read_server_first,
)
from eosin.protocol.sasl.steps import Challenge, Failure, Mechanism, Step, Success

MAX_ITERATIONS: Final = 1_000_000
"""A server that asks for more would freeze its client (CVE-2026-10143); this many take a third of a second."""

_GS2_HEADER: Final = "n,,"


class ScramClient:
    """One exchange. `first` is the first message to send; each token of the server goes into `step`."""

    def __init__(self, mechanism: Mechanism, user: str, password: str, nonce: str) -> None:
        """`nonce` is fresh and random: printable ASCII without a comma."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={escaped(user)},r={nonce}"
        self._server_signature: bytes | None = None
        self._is_over = False
        self.first: Final = (_GS2_HEADER + self._bare).encode("utf-8")

    def step(self, token: bytes) -> Step:
        """Answer the server. The first time it runs PBKDF2: up to a second at the most iterations we take."""
        if self._is_over:
            return Failure("the exchange is over")
        if self._server_signature is not None:
            self._is_over = True
            signed = read_server_final(token)
            if isinstance(signed, Failure):
                return signed
            if not hmac.compare_digest(signed, self._server_signature):
                return Failure("the server does not know the password")
            return Success()
        first = read_server_first(token)
        step = self._prove(first) if isinstance(first, ServerFirst) else first
        self._is_over = isinstance(step, Failure)
        return step

    def _prove(self, first: ServerFirst) -> Challenge | Failure:
        if not first.nonce.startswith(self._nonce) or first.nonce == self._nonce:
            return Failure("the server's nonce does not begin with the client's")
        if not MIN_ITERATIONS <= first.iterations <= MAX_ITERATIONS:
            return Failure(
                f"the server asks for {first.iterations} iterations; "
                f"this client takes {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password, first.salt, first.iterations)
        key = client_key(mechanism, salted)
        without_proof = f"c={base64_of(_GS2_HEADER.encode())},r={first.nonce}"
        auth_message = b",".join((self._bare.encode("utf-8"), first.wire, without_proof.encode()))
        mask = signature(mechanism, hashlib.new(hash_of(mechanism), key).digest(), auth_message)
        proof = bytes(a ^ b for a, b in zip(key, mask, strict=True))
        self._server_signature = signature(mechanism, server_key(mechanism, salted), auth_message)
        return Challenge(f"{without_proof},p={base64_of(proof)}".encode())
