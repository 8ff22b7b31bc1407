"""Cipher suites by the names that Java and IANA have for them, and what OpenSSL calls them (security.md 2.2).

Only suites with forward secrecy and authenticated encryption are served.
"""

from collections.abc import Sequence
from typing import Final

from eosin.settings.settings import SettingError

DEFAULT: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"

TLS12: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
TLS13: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""Python has no call that chooses among them, so all are served."""


def chosen_ciphers(suites: Sequence[str], protocols: Sequence[str]) -> str | None:
    """OpenSSL's list of suites for TLS 1.2; None where the suites leave TLS 1.3 alone. Raises `SettingError`."""
    if not suites:
        return DEFAULT
    for suite in suites:
        if suite not in TLS12 and suite not in TLS13:
            raise SettingError(f"ssl.cipher.suites must be of {', '.join((*TLS13, *TLS12))}, not {suite!r}")
    chosen = [TLS12[suite] for suite in suites if suite in TLS12]
    if chosen:
        return ":".join(chosen)
    if "TLSv1.3" not in protocols:
        raise SettingError("ssl.cipher.suites names no suite of TLS 1.2, the only version in ssl.enabled.protocols")
    return None
