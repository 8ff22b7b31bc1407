"""From what is stored of a user to what an exchange needs: a credential in any case (security.md 3.4.9)."""

from typing import Final

from eosin.model.credentials import Credentials
from eosin.protocol.sasl.scram_credentials import ScramCredential, fake_credential
from eosin.protocol.sasl.steps import Mechanism

DEFAULT_ITERATIONS: Final = 16_384
"""Of passwords that our own tools set, the most that Kafka takes; so also of users who are not there."""

MECHANISMS: Final = {1: Mechanism.SCRAM_SHA_256, 2: Mechanism.SCRAM_SHA_512}
"""The mechanisms of the store, by their number on the wire (KIP-554)."""
NUMBERS: Final = {mechanism: number for number, mechanism in MECHANISMS.items()}


def find(credentials: Credentials, user: str, mechanism: Mechanism) -> ScramCredential | None:
    """The credential of a user for a mechanism, if there is one."""
    stored = credentials.of(user).get(NUMBERS[mechanism])
    return None if stored is None else ScramCredential(mechanism, *stored)


def find_or_fake(credentials: Credentials, user: str, mechanism: Mechanism) -> ScramCredential:
    """The same, or one that looks like it, is the same each time, and fits no password."""
    found = find(credentials, user, mechanism)
    if found is not None:
        return found
    assert credentials.secret is not None, "a broker with SASL has a secret before it listens"
    return fake_credential(credentials.secret, mechanism, user, DEFAULT_ITERATIONS)
