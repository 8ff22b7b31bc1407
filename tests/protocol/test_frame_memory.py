"""How much memory large frames may hold (security.md 6.2)."""

import struct

import pytest

from eosin.protocol.frame_memory import LAZY_BYTES, Claim, FrameMemory, Share
from eosin.protocol.frames import BUFFER_BYTES, FrameDecoder, SpareBuffers

KIB = 1024


class Peer:
    """A connection that sends large frames."""

    def __init__(self, memory: FrameMemory) -> None:
        self.memory = memory
        self.share = Share()
        self.views: list[memoryview] = []
        self.admitted = 0

    def begin(self, size: int) -> Claim:
        view, claim = self.memory.claim(size, self.share)
        assert len(view) == size
        self.views.append(view)
        if not claim.is_counted:
            self.memory.wait(self, claim)
        return claim

    def frame_admitted(self) -> None:
        self.admitted += 1


@pytest.mark.parametrize("size", [100, LAZY_BYTES, LAZY_BYTES + 1])
def test_a_frame_counts_until_its_last_view_is_gone(size: int) -> None:
    memory = FrameMemory()
    peer = Peer(memory)
    assert peer.begin(size).is_counted
    assert memory.held_bytes == peer.share.held_bytes == size
    part = peer.views[0][10:20]
    peer.views.clear()
    assert memory.held_bytes == size
    del part
    assert memory.held_bytes == 0
    assert peer.share.held_bytes == 0


def test_a_peer_whose_frame_does_not_fit_waits_in_its_turn() -> None:
    memory = FrameMemory(limit_bytes=100)
    first, second, third, fourth = (Peer(memory) for _ in range(4))
    assert first.begin(70).is_counted
    waiting = [second.begin(60), third.begin(10), fourth.begin(50)]
    assert not any(each.is_counted for each in waiting), "a small one does not overtake for ever"
    assert memory.held_bytes == 70
    first.views.clear()
    assert (second.admitted, third.admitted, fourth.admitted) == (1, 1, 0)
    assert memory.held_bytes == 70
    second.views.clear()
    assert fourth.admitted == 1
    assert memory.waiting == 0


def test_one_that_is_larger_than_all_there_is_comes_alone() -> None:
    memory = FrameMemory(limit_bytes=100)
    large, other = Peer(memory), Peer(memory)
    assert large.begin(500).is_counted
    assert not other.begin(10).is_counted
    large.views.clear()
    assert other.admitted == 1


def test_a_connection_waits_for_its_own_frames_and_holds_up_nobody() -> None:
    memory = FrameMemory(limit_bytes=1000, share_bytes=100)
    greedy, other = Peer(memory), Peer(memory)
    assert greedy.begin(80).is_counted
    assert not greedy.begin(80).is_counted
    assert other.begin(80).is_counted
    other.views.clear()
    assert greedy.admitted == 0
    del greedy.views[0]
    assert greedy.admitted == 1


def test_a_peer_that_leaves_gives_up_its_turn() -> None:
    memory = FrameMemory(limit_bytes=100)
    holder, gone, last = (Peer(memory) for _ in range(3))
    holder.begin(100)
    gone.begin(100)
    last.begin(50)
    memory.gone(gone)
    gone.views.clear()
    assert memory.held_bytes == 100, "it never counted"
    holder.views.clear()
    assert (gone.admitted, last.admitted) == (0, 1)


def test_memory_that_others_hold_counts_too() -> None:
    others = [60]
    memory = FrameMemory(limit_bytes=100, others=lambda: others[0])
    one, two = Peer(memory), Peer(memory)
    assert one.begin(30).is_counted
    assert not two.begin(30).is_counted
    others[0] = 0
    one.views.clear()
    assert two.admitted == 1


def test_a_decoder_says_that_its_frame_waits_and_its_end_frees_it() -> None:
    memory = FrameMemory(limit_bytes=BUFFER_BYTES * 2)
    spare = SpareBuffers(memory=memory)
    first, second = FrameDecoder(1 << 20, spare=spare), FrameDecoder(1 << 20, spare=spare)
    peer = Peer(memory)
    for decoder in (first, second):
        begun = struct.pack(">i", BUFFER_BYTES * 2) + b"begun"
        decoder.get_buffer()[: len(begun)] = begun
        assert decoder.received(len(begun)) == []
    assert first.waiting is None
    assert second.waiting is not None
    memory.wait(peer, second.waiting)
    first.drop_large(peer)
    assert peer.admitted == 1
    assert memory.held_bytes == BUFFER_BYTES * 2
    second.drop_large(peer)
    assert memory.held_bytes == 0
    assert second.begun_bytes == 0
