"""A `ModelRunner` whose "KV cache" is the tokens themselves.

The next token is a hash of every token that it reads back through the block table, so any block that is lost, shared
wrongly, overwritten or restored wrongly shows in the output. It stands beside the real runner under one contract suite.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from forebay.engine.runner import HostBlocks, RunnerCapacity, SequenceSlice, StepLogits

VOCAB = 97


def next_token(token_ids: Sequence[int]) -> int:
    """What the fake model says after `token_ids`."""
    digest = hashlib.blake2b(np.asarray(token_ids, dtype=np.int64).tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % VOCAB


def continuation(prompt: Sequence[int], length: int) -> list[int]:
    """The whole output of a greedy generation."""
    tokens = list(prompt)
    for _ in range(length):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


class FakeRunner:
    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._slots = np.full((num_blocks, block_size), -1, dtype=np.int64)
        self.written: list[set[int]] = []
        """The blocks that each slice of the last step wrote."""

    @property
    def capacity(self) -> RunnerCapacity:
        num_blocks, block_size = self._slots.shape
        return RunnerCapacity(num_blocks, block_size, self._slots[0].nbytes, VOCAB)

    def run(self, slices: Sequence[SequenceSlice]) -> StepLogits:
        self.written = [self._write(part) for part in slices]
        rows = [row for part in slices for row in self._logits(part)]
        logits = np.stack(rows) if rows else np.zeros((0, VOCAB), dtype=np.float32)
        temperatures = np.repeat(
            np.array([part.temperature or 1.0 for part in slices], dtype=np.float32), [p.num_sampled for p in slices]
        )
        scaled = logits / temperatures[:, None]
        top_ids = np.argsort(-scaled, axis=1, kind="stable").astype(np.int32)
        return StepLogits(
            logits=logits,
            top_values=np.take_along_axis(scaled, top_ids, axis=1),
            top_ids=top_ids,
            log_normaliser=np.log(np.exp(scaled).sum(axis=1)),
        )

    def copy_out(self, blocks: Sequence[int]) -> HostBlocks:
        return [self._slots[list(blocks)]]

    def copy_in(self, saved: HostBlocks, rows: Sequence[int], blocks: Sequence[int]) -> None:
        self._slots[list(blocks)] = saved[0][list(rows)]

    def close(self) -> None:
        self._slots = np.zeros((0, self._slots.shape[1]), dtype=np.int64)

    def _write(self, part: SequenceSlice) -> set[int]:
        block_size = self._slots.shape[1]
        written: set[int] = set()
        for position, token in enumerate(part.token_ids, start=part.start):
            block = part.block_table[position // block_size]
            self._slots[block, position % block_size] = token
            written.add(block)
        return written

    def _logits(self, part: SequenceSlice) -> Iterator[np.ndarray]:
        end = part.start + len(part.token_ids)
        held = self._slots[list(part.block_table)].reshape(-1)
        for length in range(end - part.num_sampled + 1, end + 1):
            row = np.zeros(VOCAB, dtype=np.float32)
            row[next_token(held[:length])] = 9.0
            yield row
