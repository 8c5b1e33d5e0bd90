"""From a request to prompt tokens."""

from dataclasses import dataclass

from forebay.api.chat import ChatCompletionRequest
from forebay.api.completions import CompletionRequest
from forebay.core.errors import ContextTooLong, InvalidRequest
from forebay.modelfiles.chat_template import ChatTemplate
from forebay.modelfiles.model import ModelFiles
from forebay.prompting.chat_writer import WrittenChat
from forebay.prompting.known_tokens import KnownTokens
from forebay.prompting.offloading import run_sized

CHARS_AROUND_MESSAGE = 40
"""What one message costs beside its text, as if it were so much more text."""
_END_MARK = "|THE-MESSAGE-ENDS-HERE| "
"""Put at the end of a message that is to be gone on with: what the template writes from there on is cut off."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a generation continues. The text is "" where it was neither given nor asked for."""

    text: str
    token_ids: list[int]


@dataclass(frozen=True, slots=True)
class Rendering:
    """How a chat is written. `continue_final_message` leaves its last message open, to be gone on with."""

    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False

    @classmethod
    def of(cls, asked: ChatCompletionRequest) -> "Rendering":
        """As the request asks for."""
        return cls(
            add_generation_prompt=asked.add_generation_prompt is not False,
            continue_final_message=bool(asked.continue_final_message),
            add_special_tokens=bool(asked.add_special_tokens),
        )


class Prompts:
    """One model's chat template and tokenizer, kept off the event loop where they would hold it up.

    With `must_fit`, a text that can never fit the window is refused before it is cut into tokens, which takes a second
    for each megabyte.
    """

    def __init__(self, model: ModelFiles, known: KnownTokens, max_model_len: int) -> None:
        self._template = model.chat_template
        self._tokenizer = model.tokenizer
        self._known = known
        self._max_model_len = max_model_len

    async def of_chat(
        self, chat: WrittenChat, rendering: Rendering, *, request_bytes: int, must_fit: bool = True
    ) -> Prompt:
        """The chat as the model's template writes it (special tokens are its own affair). `request_bytes` is the size
        of the request that it came from, which is about that of the work.

        Raises InvalidRequest where the model has no template, or its template does not take these messages, and
        ContextTooLong.
        """
        # Many messages are work for the template even where there is little in them.
        size = request_bytes + len(chat.messages) * CHARS_AROUND_MESSAGE
        return await run_sized(lambda: self.write_chat(chat, rendering, must_fit=must_fit), size)

    def write_chat(self, chat: WrittenChat, rendering: Rendering, *, must_fit: bool = True) -> Prompt:
        """`of_chat`, here and now."""
        template = self._template
        if template is None:
            raise InvalidRequest("This model has no chat template; use /v1/completions instead.", param="messages")
        text = _render(template, chat, rendering)
        special = rendering.add_special_tokens
        return Prompt(text, self.cut(text, "messages", add_special_tokens=special, must_fit=must_fit))

    async def of_completion(self, asked: CompletionRequest, *, echoed: bool) -> list[Prompt]:
        """Each of the request's prompts; one of token ids has its text only where it is to be `echoed`.

        Raises InvalidRequest and ContextTooLong.
        """
        given = asked.prompts
        prompts: list[Prompt] = []
        for index, each in enumerate(given):
            where = f"prompt[{index}]" if len(given) > 1 else "prompt"
            prompt = await self._of_completion(each, asked, where, echoed=echoed)
            if not prompt.token_ids:
                raise InvalidRequest(f"{where}: this prompt has no tokens; send at least one.", param=where)
            prompts.append(prompt)
        return prompts

    async def _of_completion(
        self, given: str | list[int], asked: CompletionRequest, where: str, *, echoed: bool
    ) -> Prompt:
        if isinstance(given, str):
            return Prompt(given, await self.of_text(given, add_special_tokens=asked.add_special_tokens is not False))
        tokens = self.of_token_ids(given, where)
        return Prompt(await self.text_of(tokens) if echoed else "", tokens)

    async def of_text(self, text: str, *, add_special_tokens: bool = True, must_fit: bool = True) -> list[int]:
        """The text as it is, with the tokens that the model wants around it. Raises ContextTooLong."""
        return await run_sized(
            lambda: self.cut(text, "prompt", add_special_tokens=add_special_tokens, must_fit=must_fit), len(text)
        )

    def cut(self, text: str, param: str, *, add_special_tokens: bool, must_fit: bool = True) -> list[int]:
        """The tokens of `text`, which is of the field `param`, here and now. Raises ContextTooLong."""
        window = self._max_model_len
        if must_fit and (least := self._tokenizer.least_tokens(text)) >= window:
            raise ContextTooLong(
                f"the context window is {window} tokens, but {len(text)} characters of prompt are {least} tokens at "
                "the very least; shorten the prompt",
                param=param,
            )
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens)

    def of_token_ids(self, token_ids: list[int], param: str) -> list[int]:
        """The ids themselves. Raises InvalidRequest for one that the model does not know."""
        self._known.require_all(token_ids, param)
        return token_ids

    async def text_of(self, token_ids: list[int]) -> str:
        """The text that the tokens stand for, special ones included."""
        return await run_sized(lambda: self._tokenizer.decode(token_ids, skip_special_tokens=False), len(token_ids))

    async def token_texts(self, token_ids: list[int]) -> list[str]:
        """How the vocabulary writes each token."""
        return await run_sized(lambda: list(map(self._tokenizer.token_text, token_ids)), len(token_ids))


def _render(template: ChatTemplate, chat: WrittenChat, rendering: Rendering) -> str:
    """The prompt's text."""
    if not rendering.continue_final_message:
        return template.render(chat.messages, add_generation_prompt=rendering.add_generation_prompt, **chat.variables)
    *before, last = chat.messages
    marked = {**last, "content": f"{last.get('content') or ''}{_END_MARK}"}
    text = template.render([*before, marked], add_generation_prompt=False, **chat.variables)
    at = text.rfind(_END_MARK.strip())
    if at < 0:
        raise InvalidRequest(
            "continue_final_message: the model's chat template does not write the last message; send the text that is "
            "to be gone on with as the content of an assistant message.",
            param="continue_final_message",
        )
    # A template that strips what it is given would have stripped the message itself, too.
    return text[:at] if text.startswith(_END_MARK, at) else text[:at].rstrip()
