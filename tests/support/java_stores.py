"""Key stores and trust stores of Java's own kinds, made by the JDK's `keytool` as its users make them."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from certificates import Issued
from toolchains import tool
from waiting import HANG_S

_PASSWORD = "changeit"


@dataclass(frozen=True)
class JavaStore:
    """A file, its kind (JKS or PKCS12), and what opens it."""

    path: Path
    kind: str
    password: str = _PASSWORD

    def settings(self, prefix: str) -> dict[str, str]:
        """As a Java client is told of it, under `ssl.truststore` or `ssl.keystore`."""
        return {f"{prefix}.location": str(self.path), f"{prefix}.type": self.kind, f"{prefix}.password": self.password}


def trust_store(path: Path, authority: str, kind: str = "JKS") -> JavaStore:
    """A store that trusts the authority of a PEM file. Raises `toolchains.NotHere`."""
    made = JavaStore(path, kind)
    _keytool("-importcert", "-noprompt", "-alias", "authority", "-file", authority, *_named("", made))
    return made


def key_store(path: Path, issued: Issued, kind: str = "PKCS12") -> JavaStore:
    """A store with a key and its certificates. Raises `toolchains.NotHere`."""
    exported, made = JavaStore(path.with_suffix(".exported"), "PKCS12"), JavaStore(path, kind)
    exported.path.write_bytes(issued.pkcs12(_PASSWORD))
    _keytool("-importkeystore", *_named("src", exported), *_named("dest", made))
    return made


def _named(prefix: str, store: JavaStore) -> list[str]:
    return [
        f"-{prefix}keystore", str(store.path), f"-{prefix}storetype", store.kind, f"-{prefix}storepass", store.password
    ]  # fmt: skip


def _keytool(*words: str) -> None:
    command = [tool("keytool", "the stores of Java clients"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
