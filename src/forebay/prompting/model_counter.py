"""Prompt counts by a model's own tokenizer and chat template."""

from collections.abc import Callable, Sequence
from datetime import date

from forebay.api.chat import ChatCompletionRequest
from forebay.api.completions import CompletionRequest
from forebay.api.decoding import decode
from forebay.core.errors import InvalidRequest
from forebay.modelfiles.model import ModelFiles
from forebay.prompting.chat_writer import ChatWriter, WrittenChat
from forebay.prompting.counting import PromptCount, Route
from forebay.prompting.estimated_counter import EstimatedPromptCounter
from forebay.prompting.known_tokens import KnownTokens
from forebay.prompting.offloading import run_sized
from forebay.prompting.platform_prompts import Form, PlatformPrompts
from forebay.prompting.prompts import Prompt, Prompts, Rendering
from forebay.prompting.window import output_room

_BYTES_TO_CHARS = 16
"""To decode a body is so much less work than to cut as many characters into tokens."""


class ModelPromptCounter:
    """Counts as the model's replicas do, by the same code; `max_model_len` is their window (None: the model's own).

    Where it is `lenient`, a request that our own replicas would refuse is not, as others' may take it: it is estimated.
    `today` is the date that templates write.
    """

    def __init__(
        self,
        files: ModelFiles,
        max_model_len: int | None = None,
        *,
        lenient: bool = False,
        today: Callable[[], date] = date.today,
    ) -> None:
        self._window = files.context_window if max_model_len is None else max_model_len
        self._writer = ChatWriter(files)
        self._prompts = Prompts(files, KnownTokens(files), self._window)
        self._platform_prompts = PlatformPrompts(files.tokenizer, self._write_alone)
        self._today = today
        self._estimates = EstimatedPromptCounter() if lenient else None

    async def count(self, route: Route, body: bytes, platform_prompts: Sequence[str]) -> PromptCount:
        """Raises MalformedJson, InvalidRequest (unless it is lenient) and ContextTooLong, as a replica would."""
        try:
            if route == "chat/completions":
                return await self._of_chat(body, platform_prompts)
            return await self._of_completion(body, platform_prompts)
        except InvalidRequest:
            if self._estimates is None:
                raise
            return await self._estimates.count(route, body, platform_prompts)

    async def _of_chat(self, body: bytes, platform_prompts: Sequence[str]) -> PromptCount:
        def written() -> tuple[ChatCompletionRequest, WrittenChat]:
            asked = decode(body, ChatCompletionRequest)
            return asked, self._writer.write(asked)

        asked, chat = await run_sized(written, len(body) // _BYTES_TO_CHARS)
        rendering = Rendering.of(asked)
        prompt = await self._prompts.of_chat(chat, rendering, request_bytes=len(body))
        output_room(self._window, len(prompt.token_ids), asked.output_limit)
        form = Form("chat/completions", rendering.add_special_tokens, self._today())
        return await self._counted([prompt], platform_prompts, form)

    async def _of_completion(self, body: bytes, platform_prompts: Sequence[str]) -> PromptCount:
        asked = await run_sized(lambda: decode(body, CompletionRequest), len(body) // _BYTES_TO_CHARS)
        prompts = await self._prompts.of_completion(asked, echoed=False)
        # The engine generates at least one token.
        max_tokens = None if asked.max_tokens is None else max(asked.max_tokens, 1)
        for prompt in prompts:
            output_room(self._window, len(prompt.token_ids), max_tokens)
        form = Form("completions", asked.add_special_tokens is not False, None)
        return await self._counted(prompts, platform_prompts, form)

    async def _counted(self, prompts: list[Prompt], platform_prompts: Sequence[str], form: Form) -> PromptCount:
        public = 0
        if len(prompts) == 1:
            public = await self._platform_prompts.longest(prompts[0].token_ids, platform_prompts, form)
        tokens = sum(len(prompt.token_ids) for prompt in prompts)
        return PromptCount(tokens=tokens, prompts=len(prompts), public_prefix_tokens=public, exact=True)

    def _write_alone(self, text: str, form: Form) -> Prompt:
        """A platform prompt as the only message of a chat, by the system, or as a text."""
        special = form.add_special_tokens
        if form.route == "completions":
            return Prompt(text, self._prompts.cut(text, "prompt", add_special_tokens=special))
        rendering = Rendering(add_generation_prompt=False, add_special_tokens=special)
        return self._prompts.write_chat(WrittenChat([{"role": "system", "content": text}], {}), rendering)
