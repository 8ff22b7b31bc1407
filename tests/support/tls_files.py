"""Certificates of a broker on this machine and of whom not to trust, made by the openssl of the system."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import toolchains
from waiting import HANG_S


@dataclass(frozen=True)
class TlsFiles:
    """A CA, and what it signed for localhost and 127.0.0.1."""

    ca: str
    broker: str
    """Key and certificate in one file."""
    elsewhere: str
    """The same for a broker of another name."""
    other_ca: str
    pkcs12: str
    """`broker` with its CA as PKCS12, whose password is `storepass`."""
    trusted_pkcs12: str
    """`ca` alone, likewise."""

    encrypted: str
    """The text of `broker` with its key encrypted by the password `keypass`."""

    @property
    def ca_text(self) -> str:
        return Path(self.ca).read_text()

    def server(self, chain: str | None = None, *, client_auth: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain or self.broker)
        if client_auth:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def make(folder: Path) -> TlsFiles:
    """Write them. Raises NotHere."""
    openssl = toolchains.tool("openssl", "certificates of tests")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True, timeout=HANG_S)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for name in ("ca", "other"):
        run("req", "-x509", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
    for name, names in (("broker", "DNS:localhost,IP:127.0.0.1"), ("elsewhere", "DNS:elsewhere.example")):
        run("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "names").write_text(f"subjectAltName={names}\n")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        run("x509", "-req", "-in", f"{name}.csr", *signed, "-days", "3650", "-out", f"{name}.crt")
        both = (folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text()
        (folder / f"{name}.pem").write_text(both)
    run("pkcs8", "-topk8", "-in", "broker.key", "-passout", "pass:keypass", "-out", "encrypted.key")
    encrypted = (folder / "encrypted.key").read_text() + (folder / "broker.crt").read_text()
    names = ("ca", "broker", "elsewhere", "other")
    for name, parts in (
        ("broker", ("-inkey", "broker.key", "-in", "broker.crt", "-certfile", "ca.pem")),
        ("ca", ("-nokeys", "-in", "ca.pem")),
    ):
        run("pkcs12", "-export", *parts, "-passout", "pass:storepass", "-out", f"{name}.p12")
    files = ("ca.pem", "broker.pem", "elsewhere.pem", "other.pem", "broker.p12", "ca.p12")
    return TlsFiles(*(str(folder / name) for name in files), encrypted)
