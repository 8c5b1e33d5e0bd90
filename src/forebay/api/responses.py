"""`POST /v1/responses`: what goes in. Nothing is stored, so each request carries its whole conversation."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from forebay.api.chat import ReasoningEffort
from forebay.api.decoding import FieldError
from forebay.api.generation import ModelName, NumLogprobs, ServiceTier, TokenCount, refuse_unsupported
from forebay.api.tools import MAX_TOOLS, FunctionName

LOGPROBS_INCLUDED = "message.output_text.logprobs"
"""What `include` asks for log-probabilities with."""

INCLUDABLE = frozenset(
    {
        LOGPROBS_INCLUDED,
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "message.input_image.image_url",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)
"""What `include` may name; all but log-probabilities are of what no answer here has."""

RESPONSES_REFUSED: Mapping[str, tuple[object, ...]] = {
    "store": (False,),
    "previous_response_id": (),
    "conversation": (),
    "background": (False,),
    "prompt": (),
    "truncation": ("disabled",),
}
"""As `generation.REFUSED`."""

_NOT_STORED = "answers are not stored here; send the whole conversation as `input`"
RESPONSES_INSTEAD: Mapping[str, str] = {
    "store": "answers are not stored here",
    "previous_response_id": _NOT_STORED,
    "conversation": _NOT_STORED,
    "background": "answers are not stored here; stream the answer instead",
    "prompt": "prompts are not stored here; send it as `input`",
    "truncation": "leave out what does not fit",
}

TEXT_PARTS = ("input_text", "output_text")
ASSISTANT_PARTS = (*TEXT_PARTS, "refusal")


class ContentPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message, of a tool's output or of a reasoning."""

    type: str
    text: str | None = None
    refusal: str | None = None

    @property
    def words(self) -> str:
        return (self.refusal if self.type == "refusal" else self.text) or ""


class InputItem(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, a call that the model made, what came of it, or what the model thought, by its `type`."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[ContentPart] | None = None
    call_id: str | None = None
    name: FunctionName | None = None
    arguments: str | None = None
    output: str | list[ContentPart] | dict[str, Any] | None = None

    def __post_init__(self) -> None:
        match self.type:
            case "message":
                self._require("role", "content")
                allowed = ASSISTANT_PARTS if self.role == "assistant" else TEXT_PARTS
                check_text_parts("content", self.content, allowed)
            case "function_call":
                self._require("call_id", "name", "arguments")
            case "function_call_output":
                self._require("call_id", "output")
                check_text_parts("output", self.output)
            case "reasoning":
                pass
            case "item_reference":
                raise FieldError(
                    "type", "unsupported item 'item_reference'; answers are not stored here; send the item."
                )
            case _:
                raise FieldError(
                    "type",
                    f"unsupported item {self.type!r}; only 'message', 'function_call', 'function_call_output' and "
                    "'reasoning' are run.",
                )

    def _require(self, *fields: str) -> None:
        for field in fields:
            if getattr(self, field) is None:
                raise FieldError(field, f"this field is required in a {self.type} item.")


def check_text_parts(field: str, content: object, allowed: Sequence[str] = TEXT_PARTS) -> None:
    """Raise FieldError where `content` is something else than a text or parts of the `allowed` types."""
    if isinstance(content, dict):
        raise FieldError(field, "must be a text or a list of text parts.")
    if not isinstance(content, list):
        return
    for index, part in enumerate(content):
        if part.type not in allowed:
            known = ", ".join(repr(each) for each in allowed)
            raise FieldError(
                f"{field}[{index}].type", f"unsupported content part {part.type!r}; only {known} parts are run here."
            )
        name = "refusal" if part.type == "refusal" else "text"
        if getattr(part, name) is None:
            raise FieldError(f"{field}[{index}].{name}", "this field is required.")


class FunctionTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A function that the model may call; `parameters` is the JSON schema of its arguments."""

    type: str
    name: FunctionName | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        if self.type != "function":
            raise FieldError("type", f"unsupported tool {self.type!r}; the only tools here are functions of yours.")
        if self.name is None:
            raise FieldError("name", "this field is required.")


class FunctionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The one function that has to be called."""

    type: str
    name: str | None = None

    def __post_init__(self) -> None:
        if self.type != "function":
            raise FieldError("type", f"unsupported tool choice {self.type!r}; only 'function' is known here.")
        if self.name is None:
            raise FieldError("name", "this field is required.")


class TextFormat(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer's text must be; the schema is always kept to, `strict` or not."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        if self.type == "json_schema":
            for field in ("name", "schema"):
                if getattr(self, field) is None:
                    raise FieldError(field, "this field is required with the type 'json_schema'.")


class TextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the text is to be. `verbosity` is not heeded."""

    format: TextFormat | None = None
    verbosity: str | None = None


class ReasoningOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much to think. Summaries are not made: what was thought is told as it is."""

    effort: ReasoningEffort | None = None
    summary: str | None = None


class ResponsesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request. None is the same as not sent."""

    model: ModelName
    input: str | Annotated[list[InputItem], msgspec.Meta(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: TokenCount | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_logprobs: NumLogprobs | None = None
    include: list[str] | None = None
    text: TextOptions | None = None
    tools: Annotated[list[FunctionTool], msgspec.Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | FunctionChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningOptions | None = None
    service_tier: ServiceTier | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None

    max_tool_calls: int | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    stream_options: dict[str, Any] | None = None

    store: bool | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    background: bool | None = None
    prompt: Any = None
    truncation: str | None = None

    def __post_init__(self) -> None:
        refuse_unsupported(self, RESPONSES_REFUSED, RESPONSES_INSTEAD)
        self._check_include()
        if isinstance(self.input, list) and all(item.type == "reasoning" for item in self.input):
            raise FieldError("input", "there is nothing to answer; send what the reasoning is about too.")
        names = [tool.name or "" for tool in self.tools or ()]
        check_names("tools", names)
        if isinstance(self.tool_choice, FunctionChoice) and self.tool_choice.name not in names:
            raise FieldError("tool_choice.name", f"no tool in `tools` is called {self.tool_choice.name!r}.")
        if self.tool_choice == "required" and not names:
            raise FieldError("tool_choice", "'required' needs at least one tool in `tools`.")

    def _check_include(self) -> None:
        for index, name in enumerate(self.include or ()):
            if name not in INCLUDABLE:
                known = ", ".join(repr(each) for each in sorted(INCLUDABLE))
                raise FieldError(f"include[{index}]", f"nothing is called {name!r}; it may be one of {known}.")

    @property
    def wants_logprobs(self) -> bool:
        return bool(self.top_logprobs) or LOGPROBS_INCLUDED in (self.include or ())

    @property
    def format(self) -> TextFormat:
        """What the answer's text must be."""
        return (self.text and self.text.format) or TextFormat(type="text")


def check_names(field: str, names: Sequence[str]) -> None:
    """Raise FieldError where two of the tools of `field` have one name."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise FieldError(f"{field}[{index}].name", f"{name!r} is there twice; give each tool its name.")
