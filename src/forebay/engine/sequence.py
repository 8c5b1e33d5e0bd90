"""One generation, from its arrival to its end."""

import hashlib
from array import array
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from forebay.engine.request import GenerationRequest, PriorityClass

_PUBLIC_ROOT = hashlib.blake2b(b"public", digest_size=16).digest()


@dataclass(slots=True, eq=False)
class Sequence:
    """What the scheduler knows of one generation.

    `token_ids` is the prompt and, after it, what was generated. The KV entries of the first `num_computed` of them
    stand in `block_table` (or, while preempted by swap, in `num_saved_blocks` blocks of host memory).
    """

    request: GenerationRequest
    arrival: int
    """Counts arrivals; lower came first."""
    max_tokens: int
    token_ids: list[int] = field(init=False)
    prompt_length: int = field(init=False)
    priority_class: PriorityClass = field(init=False)
    num_computed: int = 0
    block_table: list[int] = field(default_factory=list[int])
    num_saved_blocks: int = 0
    num_published: int = 0
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache when it was first admitted."""
    draft: Seq[int] = ()
    """Guessed tokens after the known ones, to be tried in its next step."""
    preemptions: int = 0
    _hashes: list[bytes] = field(default_factory=list[bytes])

    def __post_init__(self) -> None:
        self.token_ids = list(self.request.prompt_token_ids)
        self.prompt_length = len(self.token_ids)
        self.priority_class = PriorityClass.of(self.request.priority)

    @property
    def order(self) -> tuple[int, int]:
        """Who goes first: the lower priority number, then the earlier arrival."""
        return (self.request.priority, self.arrival)

    @property
    def num_behind(self) -> int:
        """Known tokens that are not yet computed; 1 for a sequence that decodes."""
        return len(self.token_ids) - self.num_computed

    @property
    def num_generated(self) -> int:
        return len(self.token_ids) - self.prompt_length

    @property
    def awaits_first_token(self) -> bool:
        return self.num_generated == 0

    @property
    def scores_prompt(self) -> bool:
        """Whether its prompt is being computed for the log-probabilities of all its tokens."""
        return self.awaits_first_token and self.request.sampling.prompt_logprobs is not None

    def block_hashes(self, block_size: int, num_blocks: int) -> Seq[bytes]:
        """The hash chain over the first `num_blocks` full blocks of its known tokens.

        Each hash covers the block's tokens and all before it. The chain's root is the request's cache salt, but blocks
        wholly inside the public prefix hash from the public root, so that all tenants share those and nothing else.
        """
        for index in range(len(self._hashes), num_blocks):
            tokens = self.token_ids[index * block_size : (index + 1) * block_size]
            digest = hashlib.blake2b(self._parent_hash(index, block_size), digest_size=16)
            digest.update(array("q", tokens).tobytes())
            self._hashes.append(digest.digest())
        return self._hashes[:num_blocks]

    def _parent_hash(self, index: int, block_size: int) -> bytes:
        public_blocks = self.request.public_prefix_tokens // block_size
        parent = self._hashes[index - 1] if index else _PUBLIC_ROOT
        if index != public_blocks:
            return parent
        salt = hashlib.blake2b(self.request.cache_salt.encode(), digest_size=16, person=b"tenant").digest()
        return parent + salt
