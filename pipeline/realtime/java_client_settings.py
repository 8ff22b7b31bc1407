"""The settings of Kafka's Java client that log in and encrypt as a file of settings says, on any machine.

Always true: stores are in their values, as unencrypted PEM, so executors need no file of the driver's machine; what
only Eosin's own client knows is told to Java in its way; what both know keeps its name and value.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from eosin.client.security.settings import Login, SecuritySettings, TlsSettings
from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.security import OPTION, carried_settings
from eosin.protocol.properties import parse_properties
from eosin.protocol.sasl.jaas import LoginModule
from eosin.protocol.sasl.steps import Mechanism

_OF_SECURITY: Final = ("security.", "ssl.", "sasl.")
_OF_STORES: Final = ("ssl.truststore.", "ssl.keystore.", "ssl.key.password")
_JAAS: Final = "sasl.jaas.config"
_CALLBACK: Final = "sasl.login.callback.handler.class"
_OAUTHBEARER_CALLBACK: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN (?:\w+ )?CERTIFICATE-----.*?-----END (?:\w+ )?CERTIFICATE-----", re.DOTALL
)
_KEY: Final = re.compile(r"-----BEGIN (?:\w+ )*PRIVATE KEY-----.*?-----END (?:\w+ )*PRIVATE KEY-----", re.DOTALL)
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def java_client_settings(path: str | None) -> dict[str, str]:
    """The settings of TLS and logins in a file, for Java; those of other subjects are left out. Raises
    ConflictingSettings for a file that cannot be used."""
    if path is None:
        return {}
    settings = carried_settings(path)
    return of_security(settings, dict(parse_properties(Path(path).read_text())))


def of_security(settings: SecuritySettings, given: Mapping[str, str]) -> dict[str, str]:
    """From settings that were read, with the content of stores, and the lines that they were read from."""
    found = {
        name: value
        for name, value in given.items()
        if name.startswith(_OF_SECURITY) and not name.startswith(_OF_STORES)
    }
    if settings.tls is not None:
        found |= _stores(settings.tls)
    if settings.login is not None:
        found.setdefault(_JAAS, _jaas(settings.login))
        if settings.login.mechanism is Mechanism.OAUTHBEARER:
            found.setdefault(_CALLBACK, _OAUTHBEARER_CALLBACK)
    return found


def _stores(tls: TlsSettings) -> dict[str, str]:
    found = {}
    if tls.truststore_certificates is not None:
        found["ssl.truststore.type"] = "PEM"
        found["ssl.truststore.certificates"] = _certificates(tls.truststore_certificates)
    if tls.keystore_key is not None:
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.key"] = _java_key(tls.keystore_key, tls.key_password)
        found["ssl.keystore.certificate.chain"] = _certificates(
            f"{tls.keystore_key}\n{tls.keystore_certificate_chain or ''}"
        )
    return found


def _certificates(text: str) -> str:
    return "\n".join(_CERTIFICATE.findall(text))


def _java_key(text: str, password: str | None) -> str:
    """A key in the one form that Java reads for certain: PKCS8 without a password."""
    from cryptography.hazmat.primitives import serialization  # a query without a key does not load it

    found = _KEY.search(text)
    secret = None if password is None or found is None or "ENCRYPTED" not in found[0] else password.encode()
    try:
        key = serialization.load_pem_private_key((found[0] if found else text).encode(), secret)
    except (TypeError, ValueError):
        raise ConflictingSettings(f"{OPTION}: the key of ssl.keystore cannot be read") from None
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none).decode("ascii")


def _jaas(login: Login) -> str:
    if login.mechanism is Mechanism.OAUTHBEARER:
        return f"{LoginModule.OAUTHBEARER} required;"
    module = LoginModule.PLAIN if login.mechanism is Mechanism.PLAIN else LoginModule.SCRAM
    user, password = (each.translate(_ESCAPES) for each in (login.user, login.password))
    return f'{module} required username="{user}" password="{password}";'
