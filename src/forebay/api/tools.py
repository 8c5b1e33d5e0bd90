"""Tools that a model may call, and its calls."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from forebay.api.decoding import FieldError

FunctionName = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]
MAX_TOOLS = 128


class FunctionDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A function that the model may call; `parameters` is the JSON schema of its arguments (None: it has none)."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a request. Only functions are known."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionReference(msgspec.Struct, frozen=True, kw_only=True):
    """A function by its name."""

    name: str


class NamedToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The one tool that has to be called."""

    type: Literal["function"]
    function: FunctionReference


ToolChoice = Literal["none", "auto", "required"] | NamedToolChoice
Tools = Annotated[list[Tool], msgspec.Meta(max_length=MAX_TOOLS)]


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """What is called: `arguments` is JSON text, as the model wrote it."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model made."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


class FunctionCallDelta(msgspec.Struct, frozen=True, kw_only=True):
    """What a chunk adds to a call: the name comes whole and once, the arguments in pieces."""

    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk's part of the call number `index`; `id` and `type` come with its first."""

    index: int
    function: FunctionCallDelta
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET


def check_tool_choice(tools: list[Tool] | None, choice: ToolChoice | None) -> None:
    """Raise FieldError where two tools have one name, or `choice` asks for a tool that is not there."""
    names = [tool.function.name for tool in tools or ()]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise FieldError(f"tools[{index}].function.name", f"{name!r} is there twice; give each function its name.")
    if isinstance(choice, NamedToolChoice) and choice.function.name not in names:
        raise FieldError("tool_choice.function.name", f"no tool in `tools` is called {choice.function.name!r}.")
    if choice == "required" and not names:
        raise FieldError("tool_choice", "'required' needs at least one tool in `tools`.")
