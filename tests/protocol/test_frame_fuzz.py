"""Damaged frames end in a message or in DecodeError, and in nothing else.

EOSIN_FUZZ_FRAMES says how many are tried, EOSIN_FUZZ_SEED with which seed.
"""

import os
from itertools import islice

from frame_fuzz import mutations, request_frames

from eosin.protocol.keys import ApiKey
from eosin.protocol.types import DecodeError
from eosin.protocol.wire import codec

FRAMES = int(os.environ.get("EOSIN_FUZZ_FRAMES", "4000"))
SEED = int(os.environ.get("EOSIN_FUZZ_SEED", "1"))


def decode(frame: bytes) -> object:
    header = codec.decode_request_header(frame)
    return codec.decode_request(header.api_key, header.api_version, memoryview(frame), header.body_offset)


def test_valid_frames_are_decoded() -> None:
    for frame in request_frames(SEED, each=1):
        decode(frame)


def test_damaged_frames_are_decoded_or_refused() -> None:
    decoded = 0
    for number, frame in enumerate(islice(mutations(request_frames(SEED, each=1), SEED), FRAMES)):
        try:
            decode(frame)
            decoded += 1
        except DecodeError:
            pass
        except Exception as error:
            raise AssertionError(f"frame {number} of seed {SEED}: {frame.hex()}") from error
    assert 0.05 < decoded / FRAMES < 0.7, "the damages reach beyond the header, and do damage"


def test_a_seed_gives_the_same_frames_again() -> None:
    keys = (ApiKey.PRODUCE, ApiKey.END_TXN)
    first, second = (list(islice(mutations(request_frames(5, keys=keys), 5), 50)) for _ in range(2))
    assert first == second
