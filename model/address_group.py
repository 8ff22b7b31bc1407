"""`address_group`: what counts as one address where connections are counted (security.md 5.7)."""

from functools import lru_cache


@lru_cache(maxsize=1000)
def address_group(host: str) -> str:
    """An IPv4 address itself, or the /64 of an IPv6 one; whatever is neither counts as it is."""
    if ":" not in host:
        return host
    import ipaddress  # takes longer to import than most brokers start: only peers with IPv6 need it

    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))
