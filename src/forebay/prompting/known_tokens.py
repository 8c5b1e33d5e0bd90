"""The tokens that a request may name."""

from collections.abc import Iterable

from forebay.core.errors import InvalidRequest
from forebay.modelfiles.model import ModelFiles


class KnownTokens:
    """One model's tokens: those that both its tokenizer and its output know."""

    def __init__(self, model: ModelFiles) -> None:
        known = model.tokenizer.vocab_size
        self.size = known if model.config is None else min(known, model.config.vocab_size)

    def require(self, token_id: int, where: str) -> None:
        """Raises InvalidRequest for a token that the model has not; `where` is the entry that names it."""
        if token_id >= self.size:
            raise InvalidRequest(
                f"{where}: the model has no token {token_id}; its last is {self.size - 1}.", param=where
            )

    def require_all(self, token_ids: Iterable[int], field: str) -> None:
        """`require` for each; entries are named by their place in `field`."""
        for index, token_id in enumerate(token_ids):
            if token_id >= self.size:
                self.require(token_id, f"{field}[{index}]")
