"""What a row's draw depends on, besides its logits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forebay.engine.request import SamplingParams
from forebay.engine.sampling.history import TokenHistory


@dataclass(frozen=True, slots=True)
class Draw:
    """One row to draw: how, from which seed, and as which token of its sequence (0 is the first generated).

    Ints outside the vocabulary, in `banned`, in the bias or in the history, change nothing.
    """

    params: SamplingParams
    seed: int
    position: int
    history: TokenHistory | None
    """What the penalties count; None where there is none."""
    banned: Sequence[int]
    """Ints that may not be drawn here; mostly empty."""
    mask: npt.NDArray[np.uint32] | None
    """The allowed tokens as `mask.allowed_mask` packs them; None allows all."""

    @property
    def is_plain(self) -> bool:
        """Whether the row's logits stand as the model gave them, each token allowed."""
        return self.history is None and self.mask is None and not self.banned and not self.params.logit_bias
