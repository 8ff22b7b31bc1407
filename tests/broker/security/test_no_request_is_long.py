"""No request of any API keeps the event loop for long, whoever sends it (security.md 6.2).

The aim is 20 ms for 250,000 elements. Here requests have 12,000, or 2 MB, and the tests allow 25 ms of processor time,
so that no machine is too slow: what takes 2 us for each element, in one step, takes longer. `make fuzz` draws all
arrays, kinds, versions, users and sizes up to the limits (`make proof-fuzz`).
"""

from collections.abc import Iterator
from typing import Any

import pytest
from fuzz_requests import ADMIN, NOBODY, Attacked
from hostile_requests import KINDS, NOISE, SCALARS, TAGS, Existing, Hostile, drawn, hostiles

from eosin.broker.handlers.registry import APIS, BY_KEY
from eosin.protocol.keys import ApiKey
from eosin.protocol.wire.codec import MOST_ELEMENTS, decode_request, decode_request_header

COUNT = 12_000
MOST_S = 0.025
MOST_BYTES = 2_000_000
BY_NAME = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
"""The last versions that name topics by their names."""
USERS_OF = {"unknown": (ADMIN, NOBODY), "long": (NOBODY,)}
"""Somebody without rights is refused what he names; what exists, and what names nothing, is no different for him."""


def chosen(key: ApiKey, count: int) -> Iterator[Hostile]:
    """The outermost array of what exists and of long names, the innermost of what does not exist, tags, and what has no
    array."""
    version = BY_NAME.get(key, BY_KEY[key].versions[-1])
    made = list(hostiles(key, version, count, most_bytes=MOST_BYTES))
    yield from [each for each in made if each.kind == "existing"][:1]
    yield from [each for each in made if each.kind == "unknown"][-1:]
    yield from [each for each in made if each.kind == "long" and each.count < COUNT][:1]
    yield from [each for each in made if each.kind in (SCALARS, NOISE)]
    yield from [each for each in made if each.kind == TAGS][-1:]


def found(part: Any, path: list[str]) -> list[Any]:
    """What the arrays of a message at `path` hold together."""
    parts = [part]
    for name in path:
        parts = [each for part in parts for each in _listed(getattr(part, name))]
    return parts


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else () if value is None else (value,)


@pytest.mark.parametrize("key", [api.key for api in APIS], ids=lambda key: key.name)
def test_each_array_of_a_request_is_filled_and_the_frame_is_sound(key: ApiKey) -> None:
    version = BY_KEY[key].versions[-1]
    for hostile in hostiles(key, version, 30):
        frame = hostile.frame(Existing())[4:]
        header = decode_request_header(frame)
        assert (header.api_key, header.api_version) == (key, version)
        if hostile.kind != NOISE:
            request = decode_request(key, version, frame, header.body_offset)
            if hostile.kind in KINDS:
                assert len(found(request, hostile.array.split("."))) == 30, hostile


def test_a_seed_draws_any_api_and_size_up_to_the_limits() -> None:
    keys = [api.key for api in APIS]
    made = [drawn(seed, keys) for seed in range(300)]
    assert made == [drawn(seed, keys) for seed in range(300)]
    assert len({each.key for each in made}) > 50
    assert {each.kind for each in made} == {*KINDS, NOISE, SCALARS, TAGS}
    assert MOST_ELEMENTS // 3 < max(each.count for each in made if each.kind in KINDS) < MOST_ELEMENTS


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("key", [api.key for api in APIS], ids=lambda key: key.name)
async def test_no_large_request_keeps_the_event_loop_for_long(key: ApiKey) -> None:
    large = list(chosen(key, COUNT))
    async with Attacked.started() as attacked:
        await attacked.warm(each._replace(count=2) for each in large)
        took = [await attacked.took(each, who) for each in large for who in USERS_OF.get(each.kind, (ADMIN,))]
    wrong = [f"{each.wrong}: {each}" for each in took if each.wrong]
    wrong += [f"one step takes long: {each}" for each in took if each.longest_s > MOST_S]
    assert not wrong, "\n".join(wrong)
