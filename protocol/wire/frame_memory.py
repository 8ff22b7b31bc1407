"""`FrameMemory`: how much memory large frames may hold, over all connections and of each (security.md 6.2).

A frame takes its memory in steps of `STEP_BYTES`, as its bytes come, and counts what it has taken until nobody views
its memory any more, whoever holds the last view: the memory counts itself out when it is freed. What a frame announces
counts nothing. A frame that finds no room waits, unread. Frames of a connection's own buffer are not counted.

Always true:
- One frame at a time is in front, and takes steps whatever else is held. All others together hold at most the limit
  without the room of one frame, which is half of the limit at most. So the limit holds, but for one frame that is
  larger than its half.
- Who waits is in front, or somebody is in front of it: nobody waits for one who waits for him. The one in front ends
  its frame, and its memory comes back with the answer; or it is slow, and gives way.
- Those who wait have their turns by owner, and each owner's in the order in which they came. What one owner has holds
  at most half of what all may hold, but for a single frame and the one in front.
- Nobody gives way while nobody waits. Once somebody has waited for the time between two looks, the slow ones give way,
  first those who bring least for what their owner holds: frames that would take `PATIENCE_AMONG_EQUALS` more looks at
  the pace of the last two, unless their owner holds less than his and they are not in front; and `PATIENCE` more, if
  their owner holds much more. Who waits for frames of his own that come has no claim on the one in front, which may
  be in a short pause. A frame that has come and cannot begin brings nothing. One that waits itself, and so
  has more than a step, gives way to an owner who holds less than half of what its own does. While most is held by
  requests that the broker is at, it is only the slowest, the first of these three.
"""

import mmap
from collections import deque
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

STEP_BYTES: Final = 1 << 20
"""Size of a step in which a frame takes memory. A frame of more than this is memory that the system gives page by page
as it fills."""
CHECK_MS: Final = 250
"""Between two looks at those who hold memory, while somebody waits."""
PATIENCE: Final = 8
"""A frame that would end within so many looks is not slow."""
PATIENCE_AMONG_EQUALS: Final = 120
"""Nor is one within so many looks for those who hold as much as its owner: they wait their turn."""
MOST_AT_ONCE: Final = 64
"""Frames that give way at one look."""
_LOOKED_AT: Final = 256
"""Slow frames that are looked at for one owner who waits for others."""
_WORTH: Final = 4096
"""Counted as progress of everybody, so that a small holder in a short pause goes behind a large one that trickles."""

NO_LIMIT: Final = 1 << 62


class FrameSender(Protocol):
    """A connection that large frames come by."""

    @property
    def frame_owner(self) -> Hashable:
        """On whose account its frames are held: its user, or its address."""

    def may_write(self) -> bool:
        """True if its user may write to any topic. The receiver of the frame has to deal with whatever this raises."""

    def frame_admitted(self) -> None:
        """The frame that waits may take its next step."""

    def give_way(self) -> None:
        """Close: others wait for the memory of its frame, which comes too slowly."""


class Account:
    """The frames of one owner."""

    __slots__ = ("__weakref__", "held_bytes")

    def __init__(self) -> None:
        self.held_bytes = 0


class Share:
    """The frames of one connection, as long as it has the same owner."""

    __slots__ = ("account", "held_bytes", "sender", "waiting")

    def __init__(self, account: Account, sender: FrameSender | None) -> None:
        self.account = account
        self.sender = sender
        self.held_bytes = 0
        self.waiting: Claim | None = None
        """The frame that waits for earlier ones of its own connection."""


class Claim:
    """A frame that takes memory, or waits for it."""

    __slots__ = ("came", "has_waited", "is_waiting", "memory", "seen", "seen_before", "share", "size", "taken")

    def __init__(self, memory: "FrameMemory", share: Share, size: int) -> None:
        self.memory = memory
        self.share = share
        self.size = size
        self.taken = 0
        """Bytes of it that may come; so many count."""
        self.came = 0
        self.seen = self.seen_before = -1
        """The bytes that had come at the last look, and at the one before; -1: it began since, or had to wait."""
        self.is_waiting = False
        self.has_waited = False
        """True if it waited at the last look, or somebody gave way then."""

    @property
    def step_bytes(self) -> int:
        """Size of its next step."""
        return min(STEP_BYTES, self.size - self.taken)

    def needs(self, looks: int) -> bool:
        """True if it would take so many looks to come, at the pace of the last two, or had come before them and could
        not begin."""
        return self.seen_before >= 0 and 2 * (self.size - self.came) >= looks * (self.came - self.seen_before)

    @property
    def merit(self) -> float:
        """The bytes that came in the last two looks, per byte that its owner holds."""
        return (self.came - self.seen_before + _WORTH) / self.share.account.held_bytes

    def sample(self) -> None:
        """Keep what has come."""
        self.seen_before, self.seen = self.seen, self.came

    def new_memory(self) -> memoryview:
        """For the whole frame. Only what has been taken may be touched, and it counts until its last view is gone."""
        if self.size <= STEP_BYTES:
            plain = _Bytes(self.size)
            plain.claim = self
            return memoryview(plain)
        pages = _Pages(-1, self.size)
        pages.claim = self
        return memoryview(pages)


class _Short(NamedTuple):
    """An owner who waits."""

    account: Account
    is_full: bool
    """True if he waits for frames of his own."""
    is_served: bool
    """True if most is held by requests that the broker is at, and brings to their end by itself."""
    own_come: bool
    """True if he waits for frames of his own, most of which come, and do not wait themselves."""


class _Bytes(bytearray):
    __slots__ = ("claim",)
    claim: Claim

    def __del__(self) -> None:
        self.claim.memory.freed(self.claim)


class _Pages(mmap.mmap):
    claim: Claim

    def __del__(self) -> None:
        self.claim.memory.freed(self.claim)


class FrameMemory:
    """The limits, and what is held."""

    def __init__(
        self,
        *,
        limit_bytes: int = NO_LIMIT,
        share_bytes: int = NO_LIMIT,
        largest_bytes: int = 0,
        others: Callable[[], int] = lambda: 0,
        soon: Callable[[Callable[[], None]], object] = lambda call: call(),
        later: Callable[[Callable[[], None]], object] = lambda _: None,
    ) -> None:
        """`share_bytes` is the limit of one connection, `largest_bytes` of one frame; `others` tells what else counts
        against `limit_bytes`. `soon` calls in the loop, and may be called in any thread; `later` calls after
        `CHECK_MS`, when the loop has read what came meanwhile."""
        self.limit_bytes: Final = limit_bytes
        self.share_bytes: Final = share_bytes
        self.common_bytes: Final = limit_bytes - min(largest_bytes, limit_bytes // 2)
        """Limit of the bytes that all but the one in front may hold."""
        self.account_bytes: Final = self.common_bytes // 2
        self._others = others
        self._soon = soon
        self._later = later
        self._held_bytes = 0
        self._accounts: WeakValueDictionary[Hashable, Account] = WeakValueDictionary()
        self._begun: dict[Claim, None] = {}
        """The frames that have taken memory, and whose requests have not begun."""
        self._front: Claim | None = None
        self._freed: deque[Claim] = deque()
        """The frames that were freed, in any thread, and still count."""
        self._waiting: dict[Account, dict[Claim, None]] = {}
        """By owner; the first owner's first frame is next."""
        self._is_watched = False
        self._is_short = False
        """True if somebody gave way at the last look."""

    @property
    def held_bytes(self) -> int:
        """The bytes that count now."""
        self._collect()
        return self._held_bytes

    @property
    def waiting(self) -> int:
        """Number of frames that wait for others to make room."""
        return sum(map(len, self._waiting.values()))

    def share(self, sender: FrameSender | None) -> Share:
        """For the frames of a connection; without a sender they belong to nobody, and must not wait."""
        owner = None if sender is None else sender.frame_owner
        account = self._accounts.get(owner)
        if account is None:
            account = self._accounts[owner] = Account()
        return Share(account, sender)

    def request(self, claim: Claim) -> bool:
        """True if `claim` may take its next step, and has; if not, its sender is told when it has."""
        self._collect()
        waits_for_its_own = self._waits_for_its_own(claim)
        if (claim is self._front or not self._waiting) and not waits_for_its_own and self._try_step(claim):
            return True
        claim.is_waiting = True
        claim.has_waited = self._is_short
        if waits_for_its_own:
            claim.share.waiting = claim
        else:
            self._queue(claim)
            self._serve_all_but(claim)
            self._watch()
        if self._freed:  # in another thread, before it could see that somebody waits
            self._soon(self._serve)
        return not claim.is_waiting

    def ended(self, claim: Claim) -> None:
        """All of the frame has come, and from now on it is for the broker to bring its request to an end."""
        self._begun.pop(claim, None)

    def gone(self, claim: Claim) -> None:
        """It waits no more: its connection is gone."""
        if claim.share.waiting is claim:
            claim.share.waiting = None
        elif claim.is_waiting:
            self._unqueue(claim)
        claim.is_waiting = False

    def freed(self, claim: Claim) -> None:
        """Nobody views its memory any more. May be called in any thread."""
        self._freed.append(claim)
        if self._waiting or claim.share.waiting is not None:
            self._soon(self._serve)

    def check(self) -> None:
        """Let those give way whose frames come slowly while others have waited since the last look."""
        self._is_watched = False
        self._serve()
        given = self._giving_way()
        self._is_short = bool(given)
        for claim in given:
            assert claim.share.sender is not None
            claim.share.sender.give_way()
        self._watch()

    # What is held

    def _collect(self) -> None:
        freed = self._freed
        while freed:
            claim = freed.popleft()
            share = claim.share
            self._held_bytes -= claim.taken
            share.held_bytes -= claim.taken
            share.account.held_bytes -= claim.taken
            self._begun.pop(claim, None)
            if claim is self._front:
                self._front = None
            waiting = share.waiting
            if waiting is not None and not self._waits_for_its_own(waiting):
                share.waiting = None
                self._queue(waiting)
        front = self._front
        if front is None or front.share.account.held_bytes > self.account_bytes:
            return
        if self._held_bytes + self._others() <= self.common_bytes:
            self._front = None  # there is room for it among the others

    def _waits_for_its_own(self, claim: Claim) -> bool:
        held = claim.share.held_bytes
        return held > claim.taken and held + claim.step_bytes > self.share_bytes

    def _is_full(self, account: Account, claim: Claim) -> bool:
        """True if the owner has so much that `claim` must wait for other frames of his."""
        held, front = account.held_bytes, self._front
        if front is not None and front is not claim and front.share.account is account:
            held -= front.taken
        return held > claim.taken and held + claim.step_bytes > self.account_bytes

    def _try_step(self, claim: Claim) -> bool:
        """Take a step, if there is room or nobody is in front."""
        account, front, step = claim.share.account, self._front, claim.step_bytes
        if claim is not front:
            held = self._held_bytes + self._others() - (0 if front is None else front.taken)
            if held + step > self.common_bytes or self._is_full(account, claim):
                if front is not None:
                    return False
                self._front = claim
        if not claim.taken:
            self._begun[claim] = None
        claim.taken += step
        claim.share.held_bytes += step
        account.held_bytes += step
        self._held_bytes += step
        return True

    # Those who wait

    def _queue(self, claim: Claim) -> None:
        self._waiting.setdefault(claim.share.account, {})[claim] = None

    def _unqueue(self, claim: Claim) -> None:
        account = claim.share.account
        claims = self._waiting[account]
        del claims[claim]
        if not claims:
            del self._waiting[account]

    def _serve(self) -> None:
        self._serve_all_but(None)

    def _serve_all_but(self, asking: Claim | None) -> None:
        """Let those who wait take what there is room for, and tell them, but for the one that is asking now."""
        self._collect()
        while (claim := self._next()) is not None:
            account = claim.share.account
            self._unqueue(claim)
            if account in self._waiting:
                self._waiting[account] = self._waiting.pop(account)  # behind the others
            claim.is_waiting = False
            claim.seen = claim.seen_before = -1  # that nothing came meanwhile was not its fault
            if claim is not asking:
                assert claim.share.sender is not None
                claim.share.sender.frame_admitted()

    def _next(self) -> Claim | None:
        """The first one that could take its step. An owner who waits for his own frames holds up nobody else."""
        for account, claims in self._waiting.items():
            claim = next(iter(claims))
            if self._try_step(claim):
                return claim
            if not self._is_full(account, claim):
                return None
        return None

    # Those who are slow

    def _watch(self) -> None:
        """Look later, if somebody waits, at what has come until then."""
        if self._is_watched or not self._waiting:
            return
        self._is_watched = True
        for claim in self._begun:
            claim.sample()
        for claims in self._waiting.values():
            for claim in claims:
                claim.has_waited = True
        self._later(self.check)

    def _giving_way(self) -> list[Claim]:
        """The slow ones that hold what others have waited for, the slowest first; those others are the next to be
        served."""
        slow = sorted((each for each in self._begun if each.needs(PATIENCE)), key=lambda each: each.merit)
        moving = [each for each in slow if not each.is_waiting]
        stuck = [each for each in reversed(slow) if each.is_waiting]
        given: dict[Claim, None] = {}
        next_ones: list[Account] = []
        for account, is_full, is_served, own_come in self._short_of_memory():
            wanted = sum(each.step_bytes for each in self._waiting[account] if each.has_waited)
            for each in moving if is_full else moving[:_LOOKED_AT]:
                if wanted <= 0 or each in given or (is_served and not each.needs(PATIENCE_AMONG_EQUALS)):
                    continue
                if self._gives_way(each, account, is_full=is_full, own_come=own_come):
                    given[each] = None
                    wanted -= each.taken
            while (
                wanted > 0 and not is_served and stuck and stuck[-1].share.account.held_bytes > 2 * account.held_bytes
            ):
                each = stuck.pop()
                given[each] = None
                wanted -= each.taken
            if wanted <= 0:
                next_ones.append(account)
            if len(given) >= MOST_AT_ONCE:
                break
        self._waiting = {each: self._waiting[each] for each in (*next_ones, *self._waiting)}
        return list(given)[:MOST_AT_ONCE]

    def _gives_way(self, slow: Claim, account: Account, *, is_full: bool, own_come: bool) -> bool:
        """True if `slow` gives way to `account`, an owner who waits, for frames of his own if he `is_full`: then the
        one in front, of somebody else, does not while `own_come`, for his end by themselves or are slow themselves."""
        owner, is_front = slow.share.account, slow is self._front
        if is_full and owner is not account and (own_come or not is_front):
            return False
        if owner.held_bytes > 2 * (account.held_bytes + STEP_BYTES):
            return True
        return (is_front or owner.held_bytes >= account.held_bytes) and slow.needs(PATIENCE_AMONG_EQUALS)

    def _short_of_memory(self) -> list["_Short"]:
        """The owners who have waited since the last look, those who wait for frames of their own last."""
        begun: dict[Account, int] = {}
        coming: dict[Account, int] = {}
        for each in self._begun:
            account = each.share.account
            begun[account] = begun.get(account, 0) + each.taken
            if not each.is_waiting:
                coming[account] = coming.get(account, 0) + each.taken
        is_served = 2 * (sum(begun.values()) + self._others() + STEP_BYTES) <= self.common_bytes
        short = []
        for account, claims in islice(self._waiting.items(), MOST_AT_ONCE):
            first = next(iter(claims))
            if not first.has_waited:
                continue
            if self._is_full(account, first):
                most_served = 2 * begun.get(account, 0) < self.account_bytes
                most_come = 2 * coming.get(account, 0) >= self.account_bytes
                short.append(_Short(account, True, most_served, most_come))
            else:
                short.append(_Short(account, False, is_served, False))
        return sorted(short, key=lambda each: each.is_full)
