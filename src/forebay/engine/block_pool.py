"""The KV cache as blocks: who holds which, and what the idle ones still remember.

A block is *used* (held by at least one sequence), *cached* (held by none, content kept under its hash) or *free*
(neither). Idle blocks stand in one line in eviction order, so the free list is the prefix cache: a block that is let go
keeps its hash until its turn to be overwritten comes (after nano-vllm's block manager).
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """How many blocks are in each state; the three add up to all."""

    free: int
    cached: int
    used: int


class BlockPool:
    """Ref-counted blocks `0 … num_blocks - 1` of `block_size` token slots each."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._holders = [0] * num_blocks
        self._hash_of: list[bytes | None] = [None] * num_blocks
        self._block_of: dict[bytes, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self._cached = 0

    @property
    def counts(self) -> BlockCounts:
        idle = len(self._idle)
        return BlockCounts(free=idle - self._cached, cached=self._cached, used=self.num_blocks - idle)

    def blocks_for(self, num_tokens: int) -> int:
        """How many blocks hold `num_tokens` tokens."""
        return -(-num_tokens // self.block_size)

    def lookup(self, hashes: Iterable[bytes]) -> list[int]:
        """The blocks that hold the longest known prefix of a hash chain."""
        found: list[int] = []
        for block_hash in hashes:
            block = self._block_of.get(block_hash)
            if block is None:
                break
            found.append(block)
        return found

    def can_take(self, hits: Sequence[int], fresh: int) -> bool:
        """Whether `hits` (from `lookup`) and `fresh` more blocks can be held together."""
        idle_hits = sum(1 for block in hits if self._holders[block] == 0)
        return len(self._idle) - idle_hits >= fresh

    def take(self, hits: Sequence[int], fresh: int) -> list[int]:
        """Hold `hits` and `fresh` overwritable blocks; returns them in that order. `can_take` must hold."""
        for block in hits:
            if self._holders[block] == 0:
                del self._idle[block]
                self._cached -= 1
            self._holders[block] += 1
        return [*hits, *(self._evict() for _ in range(fresh))]

    def publish(self, block: int, block_hash: bytes) -> None:
        """Make a full, computed block findable. The first block of a hash stays the one that is found."""
        if block_hash not in self._block_of and self._hash_of[block] is None:
            self._hash_of[block] = block_hash
            self._block_of[block_hash] = block

    def release(self, blocks: Sequence[int]) -> None:
        """Let go of a sequence's blocks; the end of a chain is evicted before its beginning."""
        for block in reversed(blocks):
            self._holders[block] -= 1
            assert self._holders[block] >= 0, f"block {block} released more often than taken"
            if self._holders[block] == 0:
                self._idle[block] = None
                if self._hash_of[block] is None:
                    self._idle.move_to_end(block, last=False)
                else:
                    self._cached += 1

    def held_alone(self, blocks: Sequence[int]) -> int:
        """How many of `blocks` would become idle if one holder released them."""
        return sum(1 for block in blocks if self._holders[block] == 1)

    def _evict(self) -> int:
        block, _ = self._idle.popitem(last=False)
        block_hash = self._hash_of[block]
        if block_hash is not None:
            del self._block_of[block_hash]
            self._hash_of[block] = None
            self._cached -= 1
        self._holders[block] = 1
        return block
