"""`POST /v1/messages`, which is Anthropic's: what goes in."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from forebay.api.decoding import FieldError
from forebay.api.generation import MAX_STOP_STRINGS, ModelName, Text, TokenCount, refuse_unsupported
from forebay.api.tools import MAX_TOOLS, FunctionName

MESSAGES_REFUSED: Mapping[str, tuple[object, ...]] = {
    "container": (),
    "mcp_servers": ([],),
    "thread": (),
}
"""As `generation.REFUSED`."""

MESSAGES_INSTEAD: Mapping[str, str] = {
    "container": "nothing is run for a model here",
    "mcp_servers": "call your tools yourself and send them as `tools`",
    "thread": "answers are not stored here; send the whole conversation as `messages`",
}

_NOT_PREFILLED = "not together with an assistant's turn at the end, which is continued; end with a user's turn."
_BLOCKS_OF: Mapping[str, tuple[str, ...]] = {
    "user": ("text", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
    "system": ("text",),
}


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a turn, of the system prompt or of a tool's result, by its `type`."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: FunctionName | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: "str | list[Block] | dict[str, Any] | None" = None
    is_error: bool | None = None

    def check(self, allowed: tuple[str, ...]) -> None:
        """Raise FieldError where its type is none of `allowed`, or a field that this type needs is missing."""
        if self.type not in allowed:
            known = ", ".join(repr(each) for each in allowed)
            raise FieldError("type", f"unsupported content block {self.type!r}; only {known} blocks are run here.")
        match self.type:
            case "text":
                self._require("text")
            case "tool_use":
                self._require("id", "name", "input")
            case "tool_result":
                self._require("tool_use_id")
                if isinstance(self.content, dict):
                    raise FieldError("content", "must be a text or a list of text blocks.")
                check_blocks("content", self.content, ("text",))
            case _:
                pass

    def _require(self, *fields: str) -> None:
        for field in fields:
            if getattr(self, field) is None:
                raise FieldError(field, f"this field is required in a {self.type} block.")


def check_blocks(field: str, content: str | list[Block] | None, allowed: tuple[str, ...]) -> None:
    """Raise FieldError, with the path from `field` on, where a block of `content` cannot be run."""
    for index, block in enumerate(content if isinstance(content, list) else ()):
        try:
            block.check(allowed)
        except FieldError as error:
            raise FieldError(f"{field}[{index}].{error.field}", str(error)) from None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One turn."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]

    def __post_init__(self) -> None:
        check_blocks("content", self.content, _BLOCKS_OF[self.role])


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model may call; `input_schema` is the JSON schema of what it is given."""

    name: FunctionName
    input_schema: dict[str, Any] | None = None
    description: str | None = None
    type: str | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        if self.type not in (None, "custom"):
            raise FieldError("type", f"unsupported tool {self.type!r}; the only tools here are those that you run.")
        if self.input_schema is None:
            raise FieldError("input_schema", "this field is required.")


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a tool is to be called: as the model likes, any, the one of this `name`, or none."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None

    def __post_init__(self) -> None:
        if self.type == "tool" and self.name is None:
            raise FieldError("name", "this field is required with the type 'tool'.")


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the request is for."""

    user_id: str | None = None


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """Whether to think before answering. A budget is not heeded."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = None


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer's text must match."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the answer is to be."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class MessagesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request. None is the same as not sent. An assistant's turn at the end is continued."""

    model: ModelName
    max_tokens: TokenCount
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    system: str | list[Block] | None = None
    stream: bool | None = None
    stop_sequences: Annotated[list[Text], msgspec.Meta(max_length=MAX_STOP_STRINGS)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    tools: Annotated[list[Tool], msgspec.Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    metadata: Metadata | None = None

    cache_control: dict[str, Any] | None = None

    container: Any = None
    mcp_servers: list[Any] | None = None
    thread: Any = None

    def __post_init__(self) -> None:
        refuse_unsupported(self, MESSAGES_REFUSED, MESSAGES_INSTEAD)
        check_blocks("system", self.system, ("text",))
        names = [tool.name for tool in self.tools or ()]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise FieldError(f"tools[{index}].name", f"{name!r} is there twice; give each tool its name.")
        self._check_choice(names)
        if self.output_format and self.output_config and self.output_config.format:
            raise FieldError("output_format", "the older name of `output_config.format`; send one of them.")
        self._check_last()
        if self.is_prefilled:
            self._check_prefilled()

    @property
    def format(self) -> OutputFormat | None:
        """What the answer's text must match. `output_format` is its older name."""
        return (self.output_config and self.output_config.format) or self.output_format

    @property
    def is_prefilled(self) -> bool:
        """Whether an assistant's turn at the end is to be continued."""
        return self.messages[-1].role == "assistant"

    def _check_choice(self, names: list[str]) -> None:
        choice = self.tool_choice
        if choice is None:
            return
        if choice.type == "tool" and choice.name not in names:
            raise FieldError("tool_choice.name", f"no tool in `tools` is called {choice.name!r}.")
        if choice.type == "any" and not names:
            raise FieldError("tool_choice", "'any' needs at least one tool in `tools`.")

    def _check_last(self) -> None:
        """The assistant's turn at the end is continued, which only a text can be."""
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            if message.role != "assistant":
                return
            kinds = ["text"] if isinstance(message.content, str) else [block.type for block in message.content]
            if "tool_use" in kinds or kinds[-1:] != ["text"]:
                raise FieldError(
                    f"messages[{index}].content",
                    "the assistant's turn at the end is continued, so it must end with text and have no tool_use; send "
                    "the tool_result after it.",
                )

    def _check_prefilled(self) -> None:
        """What has to match a grammar does so from its beginning, which the prefilled text would be."""
        if self.format is not None:
            field = "output_format" if self.output_format else "output_config.format"
            raise FieldError(field, _NOT_PREFILLED)
        if self.tool_choice is not None and self.tool_choice.type in ("any", "tool"):
            raise FieldError("tool_choice", _NOT_PREFILLED)
