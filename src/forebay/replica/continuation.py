"""One choice of a text completion."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from forebay.api.completions import CompletionChoice, CompletionRequest, FinishReason
from forebay.api.logprobs import CompletionLogprobs
from forebay.engine.request import GenerationUpdate, TokenLogprob
from forebay.prompting.prompts import Prompt
from forebay.replica.logprobs import CompletionLogprobsWriter, joined, prompt_logprobs
from forebay.replica.vocabulary import Vocabulary


class AskedPrompt:
    """A prompt and, once its first choice has begun, its log-probabilities, which are the same for all its choices."""

    def __init__(self, prompt: Prompt) -> None:
        self.text = prompt.text
        self.first_token = prompt.token_ids[0] if prompt.token_ids else 0
        self.logprobs: Sequence[TokenLogprob] = ()


class Continuation:
    """Turns the updates of one generation into what its choice says. Part by part, or `whole` after the last."""

    def __init__(self, index: int, prompt: AskedPrompt, asked: CompletionRequest, vocabulary: Vocabulary) -> None:
        self._index = index
        self._prompt = prompt
        self._asked = asked
        self._vocabulary = vocabulary
        self._writer = _writer(asked, vocabulary)
        self._generates = asked.output_limit > 0
        self._begun = False
        self._parts: list[CompletionChoice] = []

    def part(self, update: GenerationUpdate) -> CompletionChoice | None:
        """What an update adds; None where there is nothing to tell yet."""
        text = update.text if self._generates else ""
        pieces: list[CompletionLogprobs] = []
        if not self._begun:
            self._begun = True
            text = self._begin(update, pieces) + text
        if self._writer is not None and self._generates and update.logprobs:
            pieces.append(self._writer.of_output(update.logprobs))
        if not text and not pieces and update.finish_reason is None:
            return None
        return CompletionChoice(
            index=self._index,
            text=text,
            logprobs=joined(pieces) if pieces else None,
            finish_reason=self._finish_reason(update),
            stop_reason=update.stop_reason if self._generates else None,
        )

    def _begin(self, update: GenerationUpdate, pieces: list[CompletionLogprobs]) -> str:
        """What comes before the answer: with `echo` the prompt, whose log-probabilities are added to `pieces`."""
        prompt = self._prompt
        if update.prompt_logprobs:
            prompt.logprobs = update.prompt_logprobs
        if not self._asked.echo:
            return ""
        if self._writer is not None:
            pieces.append(self._writer.of_prompt(prompt.text, prompt.first_token, prompt.logprobs))
        return prompt.text

    def _finish_reason(self, update: GenerationUpdate) -> FinishReason | None:
        return update.finish_reason if self._generates or update.finish_reason is None else "length"

    def gather(self, update: GenerationUpdate) -> None:
        """Keep what an update adds for `whole`."""
        part = self.part(update)
        if part is not None:
            self._parts.append(part)

    def whole(self) -> CompletionChoice:
        """All that was gathered; the last update must have been."""
        last = self._parts[-1]
        pieces = [part.logprobs for part in self._parts if part.logprobs is not None]
        return CompletionChoice(
            index=self._index,
            text="".join(part.text for part in self._parts),
            logprobs=joined(pieces) if self._writer is not None else None,
            finish_reason=last.finish_reason,
            stop_reason=last.stop_reason,
            prompt_logprobs=self._prompt_logprobs(),
        )

    def _prompt_logprobs(self) -> list[dict[str, Any] | None] | UnsetType:
        asked = self._asked.prompt_logprobs
        return UNSET if asked is None else prompt_logprobs(self._prompt.logprobs, asked, self._vocabulary)


def _writer(asked: CompletionRequest, vocabulary: Vocabulary) -> CompletionLogprobsWriter | None:
    if asked.logprobs is None:
        return None
    skips = asked.skip_special_tokens is not False
    return CompletionLogprobsWriter(asked.logprobs, vocabulary, skip_special_tokens=skips)
