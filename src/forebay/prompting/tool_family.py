"""How families of models were taught to call tools."""

from dataclasses import dataclass

from forebay.modelfiles.model import ModelFiles

_PYTHON_TAG = "<|python_tag|>"
_FUNCTION_TAG = "<function="


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a family of models sets off its calls.

    `opening` stands before a call and `closing`, where the family has one, after it; `between` are the characters that
    mean nothing after a call. In a `bare` form a call may also stand alone, at the beginning or after another call, if
    it calls a tool that is known.
    """

    opening: str
    closing: str
    between: str
    bare: bool


@dataclass(frozen=True, slots=True)
class ToolFamily:
    """One family. `inner_space` stands between the markers and a call's object, `separator` between calls.

    With `one_call_a_message` its templates refuse messages with more.
    """

    form: CallForm
    arguments_key: str
    inner_space: str
    separator: str
    one_call_a_message: bool


HERMES = ToolFamily(
    form=CallForm(opening="<tool_call>", closing="</tool_call>", between=" \t\r\n}", bare=False),
    arguments_key="arguments",
    inner_space="\n",
    separator="\n",
    one_call_a_message=False,
)
"""Hermes, Qwen 2.5 and Qwen 3: each call between tags."""

LLAMA = ToolFamily(
    form=CallForm(opening=_PYTHON_TAG, closing="", between=" \t\r\n;", bare=True),
    arguments_key="parameters",
    inner_space="",
    separator="; ",
    one_call_a_message=True,
)
"""Llama 3.1 and later: the call alone, or after a tag."""


def taught_family(model: ModelFiles) -> ToolFamily | None:
    """The family whose form the model's template tells of; None where it knows no tools, or none of these forms."""
    template = model.chat_template
    if template is None or "tools" not in template.variables:
        return None
    # Qwen3-Coder puts XML between the same tags.
    if HERMES.form.opening in template.source and _FUNCTION_TAG not in template.source:
        return HERMES
    if _PYTHON_TAG in template.source or model.tokenizer.token_id(_PYTHON_TAG) is not None:
        return LLAMA
    return None
