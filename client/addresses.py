"""Addresses of brokers: `host:port`, as bootstrap lists and command lines spell it."""

from typing import Final, NamedTuple, Self

DEFAULT_PORT: Final = 9092


class Address(NamedTuple):
    """One listener of one broker."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """`host`, `host:port`, `[v6]:port` or a bare v6 address. Raises ValueError with a sentence."""
        text = text.strip()
        scheme, slashes, rest = text.partition("://")
        if slashes and scheme.lower() in ("http", "https"):
            raise ValueError(f"{text!r} is an address of HTTP: Kafka's protocol has another port, written as host:port")
        if slashes:  # PLAINTEXT://host:port, as a broker's settings spell a listener
            raise ValueError(f"{text!r} is not an address: leave out {scheme}://, as in {rest or 'host:port'}")
        host, port = text, ""
        if text.startswith("["):
            host, _, rest = text[1:].partition("]")
            port = rest.removeprefix(":")
            if rest and not rest.startswith(":"):
                raise ValueError(f"{text!r} is not an address: expected host:port")
        elif text.count(":") == 1:
            host, _, port = text.partition(":")
        if not host or (text.endswith(":") and not port and text.count(":") == 1):
            raise ValueError(f"{text!r} is not an address: expected host:port")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"{text!r} is not an address: {port!r} is no port")
        return cls(host, int(port) if port else DEFAULT_PORT)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """A comma separated list, as `bootstrap.servers` has it. Raises ValueError when it is empty or malformed."""
    addresses = tuple(Address.parse(part) for part in text.split(",") if part.strip())
    if not addresses:
        raise ValueError("no bootstrap address was given")
    return addresses
