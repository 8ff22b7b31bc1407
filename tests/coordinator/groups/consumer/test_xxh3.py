"""XXH3 is the hash of everybody else: of inputs of each length at which its way changes."""

import hashlib

import pytest

from eosin.coordinator.groups.consumer.rules.xxh3 import xxh3

BYTES = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(128))
"""4 KiB without a pattern."""


@pytest.mark.parametrize(
    ("length", "hashed"),
    [
        (0, 0x2D06800538D394C2),
        (1, 0xCBAA0F6724AE8B0A),
        (3, 0x30C2040E8972F458),
        (4, 0xB283CCCCDC335388),
        (8, 0xF9EB574D8D0ED69E),
        (9, 0x00598195A8082FD0),
        (16, 0x026F7C9113689158),
        (17, 0x1BB02A633902E1A6),
        (64, 0x4F0EEFD15DF69759),
        (65, 0xAC6A556D62AAB22C),
        (128, 0xBA4610672BCB8497),
        (129, 0xB7B61D1915130705),
        (160, 0xB0A137980E93C537),
        (239, 0xC21ED428FFBC632F),
        (240, 0x631364A1A7109921),
        (241, 0xC1753064C7615B5F),
        (255, 0xC200CB316C9B9E81),
        (256, 0x6DF6B4B644868A43),
        (1023, 0x8535773D8D951A24),
        (1024, 0xD6440807E40EAEEF),
        (1025, 0x4488A7B613B19260),
        (1087, 0x71A55A6F9C633CA6),
        (1088, 0x815F11FBA4AF52A7),
        (1089, 0xED39DFB440FD661E),
        (2048, 0xDA1FBF6F609CF3E2),
        (2049, 0x015C14B9F0D4305A),
        (4096, 0x0895DA0FFAA07AA9),
    ],
)
def test_bytes_have_the_hash_of_the_reference(length: int, hashed: int) -> None:
    """Made by xxHash's own library (`xxh3_64bits`)."""
    assert xxh3(BYTES[:length]) == hashed
