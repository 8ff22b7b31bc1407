"""TLS contexts of clients, and what is said when a handshake fails.

Always true: unless it is said otherwise, the broker's certificate must lead to an authority that is trusted and hold
the name or address that was dialled. Keys go from memory to OpenSSL, never through a file of ours.
"""

import ssl
from dataclasses import replace

from eosin.client.security.contexts import accept_any_anchor, identify, limit_versions, trust, trust_system
from eosin.client.security.settings import SecuritySettingError, SecuritySettings, TlsSettings
from eosin.runtime.key_files import JKS, StoreError, read_store


def context_of(settings: TlsSettings) -> ssl.SSLContext:
    """A context for connections to brokers. Raises SecuritySettingError when a store cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    limit_versions(context, settings.enabled_protocols)
    accept_any_anchor(context)
    context.check_hostname = settings.is_host_name_checked and settings.is_trust_checked
    context.verify_mode = ssl.CERT_REQUIRED if settings.is_trust_checked else ssl.CERT_NONE
    _trust(context, settings)
    _identify(context, settings)
    return context


def with_content(settings: SecuritySettings) -> SecuritySettings:
    """The same settings with the content of stores in place of their paths: for processes on other machines. Raises
    SecuritySettingError."""
    tls = settings.tls
    if tls is None:
        return settings
    if tls.truststore_location is not None:
        trusted = _text(tls.truststore_location, tls.truststore_password)
        tls = replace(tls, truststore_location=None, truststore_certificates=trusted)
    if tls.keystore_location is not None:
        # One file holds both, and OpenSSL finds each where it is.
        own = _text(tls.keystore_location, tls.keystore_password)
        tls = replace(tls, keystore_location=None, keystore_key=own, keystore_certificate_chain="")
    return replace(settings, tls=tls)


def _text(path: str, password: str | None) -> str:
    try:
        return _pem(path, password).decode("ascii")
    except UnicodeDecodeError:
        raise SecuritySettingError(f"{path} is not in PEM form") from None


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.truststore_certificates is not None:
        name, content = "ssl.truststore.certificates", settings.truststore_certificates.encode()
    elif settings.truststore_location is not None:
        name = settings.truststore_location
        content = _pem(name, settings.truststore_password)
    else:
        trust_system(context)
        return
    try:
        trust(context, content)
    except (ssl.SSLError, UnicodeDecodeError):
        raise SecuritySettingError(f"{name} holds no certificates that can be read") from None


def _identify(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.keystore_key is not None:
        name = "ssl.keystore.key"
        content = f"{settings.keystore_key}\n{settings.keystore_certificate_chain}".encode()
    elif settings.keystore_location is not None:
        name = settings.keystore_location
        content = _pem(name, settings.keystore_password)
    else:
        return
    password = settings.key_password if b"ENCRYPTED" in content else None
    if b"ENCRYPTED" in content and password is None:
        # Else OpenSSL would ask whoever sits at the terminal.
        raise SecuritySettingError(f"{name} holds an encrypted key, which needs ssl.key.password")
    try:
        identify(context, content, password)
    except ssl.SSLError as error:
        why = "its key does not fit its certificate" if error.reason == "KEY_VALUES_MISMATCH" else "it cannot be read"
        if password is not None and error.reason != "KEY_VALUES_MISMATCH":
            why = "it cannot be read, or ssl.key.password is wrong"
        raise SecuritySettingError(f"{name} holds no private key with its certificates: {why}") from None


def _pem(path: str, password: str | None) -> bytes:
    """The content of a store as PEM; the password is that of PKCS12."""
    try:
        content = read_store(path)
    except StoreError as error:
        raise SecuritySettingError(str(error)) from None
    return content if b"-----BEGIN" in content else _pem_of_pkcs12(path, content, password)


def _pem_of_pkcs12(name: str, content: bytes, password: str | None) -> bytes:
    """The contents of a PKCS12 store: the key, its certificates, and the certificates that it trusts."""
    from eosin.client.security.stores import open_pkcs12, pem_of  # clients with other stores do not load it

    try:
        store = open_pkcs12(content, password)
    except ValueError:
        hint = f"; keytool -importkeystore -srckeystore {name} -destkeystore NEW -deststoretype PKCS12 converts it"
        raise SecuritySettingError(
            f"{name} is neither PEM, nor PKCS12 that its password opens{hint if content.startswith(JKS) else ''}"
        ) from None
    return pem_of(store.certificates, key=store.key)
