"""How much memory large frames may hold (security.md 6.2)."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eosin.protocol.wire.frame_memory import MOST_AT_ONCE, PATIENCE, STEP_BYTES, Claim, FrameMemory, Share
from eosin.protocol.wire.frames import BUFFER_BYTES, LARGE_PART, FrameDecoder, SpareBuffers

STEP = STEP_BYTES
FAST = 1 << 40


class Peer:
    """A connection that sends large frames, of which nothing is kept but how much of them has come."""

    def __init__(self, memory: FrameMemory, owner: str = "somebody") -> None:
        self.memory = memory
        self.frame_owner = owner
        self.share: Share = memory.share(self)
        self.claim: Claim | None = None
        """The frame that comes."""
        self.served: list[Claim] = []
        """Frames that have come, and have no answer yet."""
        self.has_left = False
        self.is_blocked = False
        """Whether it does not let the broker begin what has come."""

    def begin(self, size: int) -> bool:
        """Begin a frame; whether it may come."""
        self.claim = Claim(self.memory, self.share, size)
        return self.memory.request(self.claim)

    def send(self, count: int = FAST) -> bool:
        """Send so much of it, as far as it is read; whether all of it has come."""
        claim = self.claim
        while claim is not None and count and not claim.is_waiting:
            came = min(count, claim.taken - claim.came)
            claim.came += came
            count -= came
            if claim.came == claim.size:
                if not self.is_blocked:
                    self.memory.ended(claim)
                self.served.append(claim)
                claim = self.claim = None
            elif claim.came == claim.taken:
                self.memory.request(claim)
        return claim is None

    def answer(self) -> None:
        """Its requests have their answers."""
        while self.served:
            self.memory.freed(self.served.pop())

    def leave(self) -> None:
        claim, self.claim, self.has_left = self.claim, None, True
        if self.is_blocked:
            self.answer()
        if claim is not None:
            self.memory.gone(claim)
            if claim.taken:
                self.memory.freed(claim)

    @property
    def waits(self) -> bool:
        return self.claim is not None and self.claim.is_waiting

    def may_write(self) -> bool:
        return True

    def frame_admitted(self) -> None:
        assert self.claim is not None
        assert not self.claim.is_waiting

    def give_way(self) -> None:
        self.leave()


@pytest.mark.parametrize("size", [100, STEP, STEP + 1])
def test_a_frame_counts_until_its_last_view_is_gone(size: int) -> None:
    memory = FrameMemory()
    claim = Claim(memory, memory.share(None), size)
    assert memory.request(claim)
    view = claim.new_memory()
    assert len(view) == size
    assert memory.held_bytes == claim.share.held_bytes == min(size, STEP)
    part = view[10:20]
    del view
    assert memory.held_bytes == min(size, STEP)
    del part
    assert memory.held_bytes == claim.share.held_bytes == claim.share.account.held_bytes == 0


def test_a_frame_counts_for_what_has_come_in_steps_whatever_it_announces() -> None:
    memory = FrameMemory(limit_bytes=10 * STEP)
    peer = Peer(memory)
    assert peer.begin(100 * STEP)
    assert memory.held_bytes == STEP
    peer.send(STEP - 1)
    assert memory.held_bytes == STEP
    peer.send(1)
    assert memory.held_bytes == 2 * STEP


def test_one_frame_at_a_time_goes_on_when_there_is_no_room_however_large_it_is() -> None:
    memory = FrameMemory(limit_bytes=STEP)
    first, front, last = (Peer(memory, owner) for owner in "abc")
    for peer in (first, front):
        assert peer.begin(50 * STEP)
    assert not last.begin(STEP)
    first.send(STEP)
    assert first.waits
    assert front.send() is True
    assert memory.held_bytes == 51 * STEP
    front.answer()
    assert (last.waits, first.waits) == (False, True), "in turns"
    last.send()
    last.answer()
    assert not first.waits


def test_a_frame_that_is_larger_than_all_there_is_comes_in_front() -> None:
    memory = FrameMemory(limit_bytes=100)
    large, other, last = (Peer(memory, owner) for owner in "abc")
    assert large.begin(500)
    assert other.begin(90), "which leaves the room to others"
    assert not last.begin(90)
    large.send()
    assert last.waits
    large.answer()
    assert not last.waits


def test_the_limit_leaves_room_for_the_one_in_front() -> None:
    memory = FrameMemory(limit_bytes=10 * STEP, largest_bytes=3 * STEP)
    assert memory.common_bytes == 7 * STEP
    assert FrameMemory(limit_bytes=4 * STEP, largest_bytes=3 * STEP).common_bytes == 2 * STEP
    peers = [Peer(memory, f"{number}") for number in range(12)]
    for peer in peers:
        peer.begin(3 * STEP)
    for peer in peers:
        peer.send()
    assert memory.held_bytes == 10 * STEP


def test_owners_have_their_turns_and_what_one_has_begun_holds_half_at_most() -> None:
    memory = FrameMemory(limit_bytes=8 * STEP)
    crowd = [Peer(memory, "crowd") for _ in range(8)]
    admitted = [peer.begin(STEP) for peer in crowd]
    assert admitted == [True] * 5 + [False] * 3, "half, and one in front"
    others = [Peer(memory, "other") for _ in range(4)]
    assert [peer.begin(STEP) for peer in others] == [True] * 4, "they wait for nobody"
    late = [Peer(memory, "late") for _ in range(2)]
    assert [peer.begin(STEP) for peer in late] == [False, False]
    for number in range(3):
        crowd[number].send()
        crowd[number].answer()
    assert [peer.waits for peer in (*crowd[5:], *late)] == [False, False, True, False, True], "in turns"


def test_a_connection_waits_for_its_own_frames_and_holds_up_nobody() -> None:
    memory = FrameMemory(limit_bytes=1000, share_bytes=100)
    greedy, other = Peer(memory), Peer(memory)
    assert greedy.begin(80)
    greedy.send()
    assert not greedy.begin(80)
    assert other.begin(80)
    other.send()
    other.answer()
    assert greedy.waits
    assert memory.waiting == 0, "nobody has to make room for it"
    greedy.answer()
    assert not greedy.waits


def test_a_frame_larger_than_the_share_of_its_connection_comes_when_it_has_no_other() -> None:
    memory = FrameMemory(share_bytes=2 * STEP)
    peer = Peer(memory)
    peer.begin(2 * STEP)
    peer.send()
    assert not peer.begin(5 * STEP)
    peer.answer()
    assert peer.send()


@pytest.mark.parametrize("size", [100, STEP])
def test_a_peer_that_leaves_gives_up_its_turn(size: int) -> None:
    memory = FrameMemory(limit_bytes=size)
    holder, front, gone, last = (Peer(memory, owner) for owner in "abcd")
    for peer in (front, holder):
        assert peer.begin(size)
    assert not gone.begin(100)
    assert not last.begin(50)
    gone.leave()
    assert memory.held_bytes == 2 * min(size, STEP), "it never counted"
    front.leave()
    assert not last.waits


def test_memory_that_others_hold_counts_too() -> None:
    others = [60]
    memory = FrameMemory(limit_bytes=100, others=lambda: others[0])
    one, front, last = (Peer(memory, owner) for owner in "abc")
    assert one.begin(30)
    assert front.begin(30)
    assert not last.begin(30)
    others[0] = 0
    one.leave()
    assert not last.waits


def test_a_frame_that_is_freed_in_a_thread_at_the_moment_of_the_question_is_noticed() -> None:
    def others() -> int:
        if in_the_middle:
            in_the_middle.pop()()
        return 0

    in_the_middle: list[Callable[[], None]] = []
    memory = FrameMemory(limit_bytes=100, others=others)
    one, two = Peer(memory), Peer(memory)
    one.begin(100)
    one.send()
    two.begin(100)
    two.send()
    last = Peer(memory)
    in_the_middle.append(one.answer)
    last.begin(50)
    assert not last.waits


# Who gives way


class Looks:
    """The looks of a frame memory, by hand."""

    def __init__(self) -> None:
        self.next: list[Callable[[], None]] = []

    def __call__(self, look: Callable[[], None]) -> None:
        self.next.append(look)

    def pass_by(self) -> None:
        """The time of one look passes."""
        for look in [self.next.pop() for _ in range(len(self.next))]:
            look()


def test_nobody_gives_way_while_nobody_waits() -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=100 * STEP, later=looks)
    peers = [Peer(memory, f"{number}") for number in range(100)]
    for peer in peers:
        assert peer.begin(2 * STEP)
    assert not looks.next, "nobody even looks"


def test_those_who_trickle_give_way_to_those_who_wait_and_no_more_than_these_need() -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=20 * STEP, later=looks)
    hostile = [Peer(memory, "hostile") for _ in range(30)]
    modest = Peer(memory, "modest")
    modest.begin(10 * STEP)
    for peer in hostile:
        peer.begin(100 * STEP)
    others = [Peer(memory, f"{number}") for number in range(12)]
    admitted = [peer.begin(STEP) for peer in others]
    assert admitted.count(False) == 3
    for _ in range(3):
        for peer in hostile:
            peer.send(13)
        for peer in others:
            peer.send(STEP // 10)
        modest.send(5000)
        looks.pass_by()
    assert not modest.has_left, "it holds little"
    assert any(peer.has_left for peer in hostile)
    assert not any(peer.waits for peer in others)


def test_whoever_makes_good_progress_stays_though_others_wait() -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=4 * PATIENCE * 2000, later=looks)
    peers = [Peer(memory, f"{number}") for number in range(8)]
    for peer in peers:
        peer.begin(PATIENCE * 2000)
    waiting = [peer for peer in peers if peer.waits]
    assert waiting
    for _ in range(PATIENCE):
        for peer in peers:
            peer.send(2000)
        looks.pass_by()
    assert not any(peer.has_left for peer in peers)
    for peer in peers:
        peer.answer()
    assert not any(peer.waits for peer in peers)


@pytest.mark.parametrize("equal", [True, False])
def test_equals_wait_their_turn_and_a_crowd_of_one_owner_gives_way(equal: bool) -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=12 * STEP, later=looks)
    peers = [Peer(memory, f"{number}" if equal else "ab"[number % 2]) for number in range(12)]
    front, waiting = Peer(memory, "front"), Peer(memory, "waiting")
    for peer in (*peers, front, waiting):
        peer.begin(STEP)
    assert waiting.waits
    for _ in range(4):
        for peer in (*peers, front):
            peer.send(STEP // 3 // PATIENCE)
        looks.pass_by()
    assert waiting.waits is equal
    assert any(peer.has_left for peer in peers) is not equal


def test_the_one_in_front_may_pause_beside_another_whose_frames_do_not_come() -> None:
    """His frames wait for each other, and not for the one in front, which was closed first: it holds most."""
    looks = Looks()
    memory = FrameMemory(limit_bytes=20 * STEP, later=looks)
    honest = Peer(memory, "honest")
    honest.begin(12 * STEP)
    crowd = [Peer(memory, "crowd") for _ in range(30)]
    for peer in crowd:
        peer.begin(100 * STEP)
    honest.send(10 * STEP)
    for _ in range(40):  # of which only the first ones find it without the front
        for number, peer in enumerate(crowd):
            if peer.has_left:
                peer = crowd[number] = Peer(memory, "crowd")
                peer.begin(100 * STEP)
            peer.send(13)
        looks.pass_by()
    assert (honest.has_left, honest.waits) == (False, False)
    assert honest.send()


def test_the_one_in_front_gives_way_to_another_whose_own_frames_are_served() -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=20 * STEP, later=looks)
    other = Peer(memory, "other")
    for _ in range(10):
        other.begin(STEP)
        other.send()
    front = Peer(memory, "front")
    front.begin(100 * STEP)
    front.send(12 * STEP)
    other.begin(STEP)
    assert other.waits
    for _ in range(4):
        looks.pass_by()
    assert front.has_left
    assert not other.waits


def test_a_frame_that_began_since_the_last_look_has_time() -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=100, later=looks)
    steady, front, late, waiting = (Peer(memory, owner) for owner in "abcd")
    for peer in (steady, front, late, waiting):
        peer.begin(100)
    for peer in (steady, front):
        peer.send(20)
    looks.pass_by()
    front.leave()
    assert (late.waits, waiting.waits) == (False, True)
    steady.send(20)
    looks.pass_by()
    assert not late.has_left
    for _ in range(2):
        steady.send(20)
        looks.pass_by()
    assert (late.has_left, steady.has_left, waiting.waits) == (True, False, False)


def test_while_most_is_held_by_requests_that_the_broker_is_at_only_those_who_have_stopped_give_way() -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=20 * STEP, later=looks)
    served = [Peer(memory, f"{number}") for number in range(14)]
    for peer in served:
        peer.begin(STEP)
        peer.send()
    crowd = [Peer(memory, "crowd") for _ in range(6)]
    front, waiting = Peer(memory, "front"), Peer(memory, "waiting")
    for peer in (*crowd, front, waiting):
        peer.begin(STEP)
    assert waiting.waits
    for _ in range(5):
        for peer in (*crowd, front):
            peer.send(STEP // 40)
        looks.pass_by()
    assert not any(peer.has_left for peer in crowd)
    for _ in range(3):
        looks.pass_by()
    assert sum(peer.has_left for peer in crowd) == 1
    assert not waiting.waits


def test_a_request_that_its_client_does_not_let_begin_gives_way() -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=4 * STEP, later=looks)
    hostile = [Peer(memory, owner) for owner in "aabb"]
    for peer in hostile:
        peer.is_blocked = True
        peer.begin(STEP)
        peer.send()
    front, waiting = Peer(memory, "front"), Peer(memory, "waiting")
    front.begin(STEP)
    waiting.begin(STEP)
    assert waiting.waits
    for _ in range(2):
        looks.pass_by()
    assert not waiting.waits
    assert sum(peer.has_left for peer in hostile) <= 1


def test_one_who_waits_gives_way_only_to_somebody_with_much_less() -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=12 * STEP, later=looks)
    large = [Peer(memory, owner) for owner in "aabb" * 3]
    for peer in large:
        assert peer.begin(100 * STEP)
    front = Peer(memory, "front")
    front.begin(2 * STEP)
    for peer in large:
        peer.send()
    assert all(peer.waits for peer in large)
    front.send(STEP // 4)
    looks.pass_by()
    assert not any(peer.has_left for peer in large), "they wait for each other, and the one in front goes on"
    small = Peer(memory, "small")
    small.begin(STEP)
    for _ in range(2):
        front.send(STEP // 4)
        looks.pass_by()
    assert not small.waits
    assert sum(peer.has_left for peer in large) == 1


def test_not_more_than_so_many_give_way_at_a_look() -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=400 * STEP, later=looks)
    slow = [Peer(memory, owner) for owner in "ab" * 200]
    for peer in slow:
        peer.begin(2 * STEP)
    others = [Peer(memory, f"{number}") for number in range(200)]
    for peer in others:
        peer.begin(STEP)
    looks.pass_by()
    before = sum(peer.has_left for peer in (*slow, *others))
    looks.pass_by()
    assert sum(peer.has_left for peer in (*slow, *others)) - before == MOST_AT_ONCE


# Together


class Machine(RuleBasedStateMachine):
    """Senders who do as they like, and what is always true of the memory."""

    @initialize(limit=st.integers(1, 12), largest=st.integers(0, 8), share=st.integers(1, 8))
    def start(self, limit: int, largest: int, share: int) -> None:
        self.looks = Looks()
        self.memory = FrameMemory(
            limit_bytes=limit * STEP, largest_bytes=largest * STEP, share_bytes=share * STEP, later=self.looks
        )
        self.peers = [Peer(self.memory, owner) for owner in "aaaabbbc"]

    def _new(self, index: int) -> Peer:
        if self.peers[index].has_left:
            before = self.peers[index]
            self.peers[index] = Peer(self.memory, before.frame_owner)
            self.peers[index].served = before.served
        return self.peers[index]

    @rule(index=st.integers(0, 7), tenths=st.integers(1, 80))
    def begin(self, index: int, tenths: int) -> None:
        peer = self._new(index)
        if peer.claim is None:
            peer.begin(tenths * STEP // 10)

    @rule(index=st.integers(0, 7), tenths=st.sampled_from((1, 5, 10, 30, 80)))
    def send(self, index: int, tenths: int) -> None:
        self.peers[index].send(tenths * STEP // 10)

    @rule(index=st.integers(0, 7))
    def answer(self, index: int) -> None:
        self.peers[index].answer()

    @rule(index=st.integers(0, 7))
    def leave(self, index: int) -> None:
        self.peers[index].leave()

    @precondition(lambda self: self.looks.next)
    @rule()
    def look(self) -> None:
        self.looks.pass_by()

    @rule()
    def all_send(self) -> None:
        """Whatever came before: those who all send are all served, and none of them has to give way."""
        here = [peer for peer in self.peers if peer.claim is not None]
        for _ in range(100):
            for peer in here:
                peer.send()
            for peer in self.peers:
                peer.answer()
            if not any(peer.claim for peer in here):
                break
        assert not any(peer.has_left or peer.claim is not None for peer in here)
        assert self.memory.held_bytes == self.memory.waiting == 0

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "memory"):
            return
        memory = self.memory
        begun = [peer.claim for peer in self.peers if peer.claim is not None]
        claims = [*begun, *(claim for peer in self.peers for claim in peer.served)]
        held = memory.held_bytes
        assert held == sum(claim.taken for claim in claims)
        front = memory._front
        others = held - (0 if front is None else front.taken)
        assert others <= memory.common_bytes
        assert memory.waiting == 0 or front is not None, "who waits has one in front of it"
        assert front is None or front in claims
        for account in {claim.share.account for claim in claims}:
            mine = [claim for claim in claims if claim.share.account is account and claim.taken]
            assert account.held_bytes == sum(claim.taken for claim in mine)
            small = [claim.taken for claim in mine if claim is not front]
            assert len(small) <= 1 or sum(small) <= memory.account_bytes
        for claim in begun:
            assert claim.came <= claim.taken <= claim.size
        assert bool(self.looks.next) or memory.waiting == 0


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


RATES = (0, 10, STEP // 100, STEP // 4, STEP, 20 * STEP)
"""Bytes that a sender sends between two looks."""
FRAMES = st.tuples(st.sampled_from("abcd"), st.integers(1, 60), st.sampled_from(RATES))
"""The owner, the size in tenths of a step, and the rate."""


@settings(max_examples=150, deadline=None)
@given(frames=st.lists(FRAMES, min_size=1, max_size=20), limit=st.integers(1, 10))
def test_whoever_waits_has_his_turn_and_the_fast_ones_stay(frames: list[tuple[str, int, int]], limit: int) -> None:
    looks = Looks()
    memory = FrameMemory(limit_bytes=limit * STEP, largest_bytes=6 * STEP, later=looks)
    peers = [Peer(memory, owner) for owner, _, _ in frames]
    sizes = [tenths * STEP // 10 for _, tenths, _ in frames]
    for peer, size in zip(peers, sizes, strict=True):
        peer.begin(size)
    for _ in range(1000):
        for peer, (_, _, rate) in zip(peers, frames, strict=True):
            peer.send(rate)
            peer.answer()
        if not looks.next:
            break
        looks.pass_by()
    assert memory.waiting == 0
    of_one = len({owner for owner, _, _ in frames}) == 1
    for peer, size, (_, _, rate) in zip(peers, sizes, frames, strict=True):
        if rate * PATIENCE >= size and (of_one or size <= STEP):
            assert not peer.has_left, "it was never slow"
            assert peer.claim is None or rate < size


# In decoders


def begun(decoder: FrameDecoder, data: bytes) -> None:
    while data:
        view = decoder.get_buffer()
        count = min(len(view), len(data))
        view[:count] = data[:count]
        assert decoder.received(count) == []
        data = data[count:]


def test_a_frame_of_which_little_has_come_holds_nothing_but_its_buffer() -> None:
    memory = FrameMemory()
    decoder = FrameDecoder(100 * STEP, spare=SpareBuffers(memory=memory))
    begun(decoder, struct.pack(">i", 50 * STEP) + bytes(BUFFER_BYTES // LARGE_PART - 1))
    assert memory.held_bytes == 0
    begun(decoder, bytes(1))
    assert memory.held_bytes == STEP
    begun(decoder, bytes(STEP))
    assert memory.held_bytes == 2 * STEP
    assert decoder.begun_bytes == BUFFER_BYTES // LARGE_PART + STEP + 4
    decoder.drop_large()
    assert memory.held_bytes == 0
    assert decoder.begun_bytes == 0


def test_a_decoder_says_that_its_frame_waits_and_its_end_frees_it() -> None:
    memory = FrameMemory(limit_bytes=STEP)
    spare = SpareBuffers(memory=memory)
    decoders: dict[str, FrameDecoder] = {}

    class Receiver(Peer):
        def frame_admitted(self) -> None:
            decoders[self.frame_owner].go_on()

    for name in ("first", "front", "last"):
        decoders[name] = FrameDecoder(3 * STEP, spare=spare, sender=Receiver(memory, name))
        begun(decoders[name], struct.pack(">i", STEP) + name.encode().ljust(BUFFER_BYTES // LARGE_PART))
    first, front, last = decoders.values()
    assert (first.is_waiting, front.is_waiting, last.is_waiting) == (False, False, True)
    assert memory.held_bytes == 2 * STEP
    first.drop_large()
    assert not last.is_waiting
    rest = STEP - BUFFER_BYTES // LARGE_PART
    last.get_buffer()[:rest] = bytes(rest)
    (frame,) = last.received(rest)
    assert bytes(frame) == b"last".ljust(BUFFER_BYTES // LARGE_PART) + bytes(rest)
    del frame
    front.drop_large()
    assert memory.held_bytes == 0
