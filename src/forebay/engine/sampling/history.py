"""How often each token has been seen in a sequence."""

from collections.abc import Sequence

import numpy as np

from forebay.engine.request import SamplingParams
from forebay.engine.sampling.arrays import Ints


class TokenHistory:
    """The distinct tokens of a prompt and of what was generated after it, counted for penalties.

    The generated ones stand first, so that both "generated" and "seen at all" are the start of one array.
    """

    @classmethod
    def wanted_by(cls, params: SamplingParams) -> bool:
        """Whether a penalty of `params` needs it."""
        return params.repetition_penalty != 1 or params.presence_penalty != 0 or params.frequency_penalty != 0

    def __init__(self, prompt_token_ids: Sequence[int]) -> None:
        distinct = dict.fromkeys(prompt_token_ids)
        self._places: dict[int, int] = {token: place for place, token in enumerate(distinct)}
        self._ids: Ints = np.fromiter(distinct, dtype=np.int64, count=len(distinct))
        self._counts: Ints = np.zeros(len(distinct), dtype=np.int64)
        self._num_generated = 0

    @property
    def generated(self) -> tuple[Ints, Ints]:
        """The distinct generated tokens and how often each was generated; valid until the next `push`."""
        return self._ids[: self._num_generated], self._counts[: self._num_generated]

    @property
    def seen(self) -> tuple[Ints, Ints]:
        """The same with the prompt's other tokens, generated 0 times; valid until the next `push`."""
        num_seen = len(self._places)
        return self._ids[:num_seen], self._counts[:num_seen]

    def push(self, token_id: int) -> None:
        """Count one more generated token."""
        place = self._places.get(token_id)
        if place is None:
            place = self._append(token_id)
        if place >= self._num_generated:
            self._swap(place, self._num_generated)
            place = self._num_generated
            self._num_generated += 1
        self._counts[place] += 1

    def _append(self, token_id: int) -> int:
        place = len(self._places)
        if place == self._ids.size:
            # Doubling makes the copies cost O(1) for each token.
            self._ids = np.concatenate([self._ids, np.zeros(place + 16, dtype=np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros(place + 16, dtype=np.int64)])
        self._ids[place] = token_id
        self._places[token_id] = place
        return place

    def _swap(self, place: int, other: int) -> None:
        """Exchange two tokens that were not generated yet: both count 0."""
        token, other_token = int(self._ids[place]), int(self._ids[other])
        self._ids[place], self._ids[other] = other_token, token
        self._places[token], self._places[other_token] = other, place
