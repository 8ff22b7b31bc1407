"""An issuer of tokens: keys, the set of the public ones, and tokens signed with them."""

import json
import time
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "kafka"


class Issuer:
    """Has an RSA key `rsa` and an elliptic one `ec`."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())

    def keys(self, **changes: Any) -> bytes:
        """The set of public keys; `changes` are made to each entry."""
        made = (
            {**json.loads(RSAAlgorithm.to_jwk(self.rsa.public_key())), "kid": "rsa", "use": "sig"},
            {**json.loads(ECAlgorithm.to_jwk(self.ec.public_key())), "kid": "ec", "use": "sig", "alg": "ES256"},
        )
        return json.dumps({"keys": [{**each, **changes} for each in made]}).encode()

    def write(self, path: Path) -> str:
        """The set as a file; its URL."""
        path.write_bytes(self.keys())
        return path.as_uri()

    def token(
        self, *, key: Any = None, algorithm: str = "RS256", header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A good token, but for what is said otherwise; a claim of None is left out."""
        now = time.time()
        all_claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 60, **claims}
        kept = {name: value for name, value in all_claims.items() if value is not None}
        return jwt.encode(
            kept, self.rsa if key is None else key, algorithm=algorithm, headers={"kid": "rsa", **(header or {})}
        )
