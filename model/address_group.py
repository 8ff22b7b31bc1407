"""Group peers by address and by network, for the counts of connections (security.md 5.7)."""

from functools import lru_cache


@lru_cache(maxsize=1000)
def address_group(host: str) -> str:
    """An IPv4 address itself, or the /64 of an IPv6 one; whatever is neither counts as it is."""
    return _within(host, ipv4_bits=32, ipv6_bits=64)


@lru_cache(maxsize=1000)
def network_of(host: str) -> str:
    """The /24 of an IPv4 address, or the /48 of an IPv6 one: as much as one owner has, as a rule."""
    return _within(host, ipv4_bits=24, ipv6_bits=48)


def _within(host: str, *, ipv4_bits: int, ipv6_bits: int) -> str:
    if ":" in host:
        import ipaddress  # takes longer to import than most brokers start: only peers with IPv6 need it

        try:
            address = ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            return host
        if address.ipv4_mapped is None:
            return str(ipaddress.IPv6Network((address, ipv6_bits), strict=False))
        host = str(address.ipv4_mapped)
    return host if ipv4_bits == 32 else ".".join(host.split(".")[: ipv4_bits // 8])
