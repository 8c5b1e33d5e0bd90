"""How one model's chats are written and read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forebay.api.chat import ChatCompletionRequest
from forebay.api.decoding import bounded
from forebay.api.tools import FunctionDefinition, NamedToolChoice, Tool
from forebay.core.errors import InvalidRequest
from forebay.engine.grammar.json_schema import enforceable
from forebay.engine.request import Grammar
from forebay.modelfiles.model import ModelFiles
from forebay.modelfiles.tokenizer import ModelTokenizer
from forebay.prompting.chat_writer import ChatWriter, WrittenChat, tools_in_play
from forebay.prompting.nesting import refusing_deep_nesting
from forebay.prompting.tool_family import CallForm
from forebay.replica.dialects.call_grammar import CallGrammar, arguments_schema
from forebay.replica.dialects.call_parser import CallParser
from forebay.replica.dialects.pieces import OutputParser, PlainParser
from forebay.replica.dialects.reasoning import CLOSING, OPENING, ReasoningParser, reasoning_after
from forebay.replica.dialects.reasoning_marks import ReasoningMarks
from forebay.replica.structured import output_grammar


@dataclass(frozen=True, slots=True)
class CallReading:
    """How calls are found in an answer; with `only_calls` a grammar holds it to them."""

    form: CallForm
    names: frozenset[str]
    max_calls: int | None
    text_ends_calls: bool
    only_calls: bool

    def parser(self) -> CallParser:
        return CallParser(
            self.form,
            self.names,
            max_calls=self.max_calls,
            text_ends_calls=self.text_ends_calls,
            only_calls=self.only_calls,
        )


@dataclass(frozen=True)
class ChatPlan:
    """One request's chat: what the template is given of it, and how what comes out is held to its form and read.

    `grammar` is what the whole output must match, after the reasoning where there is one. `calls` is None where no
    calls are looked for, `marks` where the model marks no reasoning. `continued` is the text of the assistant's message
    that is to be gone on with.
    """

    chat: WrittenChat
    grammar: Grammar | None
    skip_special_tokens: bool
    calls: CallReading | None
    marks: ReasoningMarks | None
    continued: str

    @property
    def only_calls(self) -> bool:
        """Whether calls are enforced, so that the answer has no text."""
        return self.calls is not None and self.calls.only_calls

    def parser(self, prompt_text: str) -> OutputParser:
        """A new one, for one output of the rendered prompt `prompt_text`."""
        answer: OutputParser = PlainParser() if self.calls is None else self.calls.parser()
        if self.marks is None:
            return answer
        reasoning = reasoning_after(prompt_text, self.continued)
        return answer if reasoning == "over" else ReasoningParser(answer, begun=reasoning == "begun")

    def grammar_for(self, prompt_text: str) -> Grammar | None:
        """`grammar`, with room for the reasoning that is still to come after `prompt_text`."""
        if self.grammar is None or self.marks is None:
            return self.grammar
        return self.marks.before(self.grammar, reasoning_after(prompt_text, self.continued))


class ChatDialect:
    """How one model's chats are written and read, by its chat template and vocabulary. One for each model, made at
    start.
    """

    def __init__(self, model: ModelFiles) -> None:
        self._writer = ChatWriter(model)
        self._family = self._writer.family
        self._grammar = CallGrammar(self._family, model.tokenizer.token_id)
        self._marks = ReasoningMarks.of(model)
        form = self._family.form
        self._call_marks_are_special = are_special(model.tokenizer, form.opening, form.closing)
        self._reasoning_is_special = self._marks is not None and are_special(model.tokenizer, OPENING, CLOSING)

    def plan(self, asked: ChatCompletionRequest) -> ChatPlan:
        """Raises InvalidRequest, naming the field, for what cannot be given to the template or held to."""
        with refusing_deep_nesting():
            return self._plan(asked)

    def _plan(self, asked: ChatCompletionRequest) -> ChatPlan:
        _check_parameters(asked)
        tools = tools_in_play(asked)
        last = asked.messages[-1]
        output = output_grammar(asked)
        return ChatPlan(
            chat=self._writer.write(asked),
            grammar=self._whole_grammar(asked, tools, output),
            skip_special_tokens=not ((tools and self._call_marks_are_special) or self._reasoning_is_special),
            calls=self._call_reading(asked, tools, output) if tools else None,
            marks=self._marks,
            continued=last.text if asked.continue_final_message and last.role == "assistant" else "",
        )

    def _whole_grammar(
        self, asked: ChatCompletionRequest, tools: Sequence[Tool], output: Grammar | None
    ) -> Grammar | None:
        many = asked.parallel_tool_calls is not False
        if isinstance(asked.tool_choice, NamedToolChoice):
            name = asked.tool_choice.function.name
            return self._grammar.calls([tool for tool in tools if tool.function.name == name], many=False)
        if asked.tool_choice == "required":
            return self._grammar.calls(tools, many=many)
        if tools and output is not None:
            return self._grammar.calls_or(tools, output, many=many)
        if any(tool.function.strict for tool in tools):
            return self._grammar.text_and_calls(tools, many=many)
        return output

    def _call_reading(self, asked: ChatCompletionRequest, tools: Sequence[Tool], output: Grammar | None) -> CallReading:
        named = isinstance(asked.tool_choice, NamedToolChoice)
        either_or = asked.tool_choice in (None, "auto") and output is not None
        form = self._family.form
        return CallReading(
            # JSON that is no call may stand where a call without its marker could.
            form=replace(form, bare=False) if either_or else form,
            names=frozenset(tool.function.name for tool in tools),
            max_calls=1 if named or asked.parallel_tool_calls is False else None,
            text_ends_calls=either_or,
            only_calls=named or asked.tool_choice == "required",
        )


def are_special(tokenizer: ModelTokenizer, *marks: str) -> bool:
    """Whether any of `marks` is a token that is left out of a text without special tokens."""
    found = [tokenizer.token_id(mark) for mark in marks if mark]
    return any(token is not None and not tokenizer.decode([token]) for token in found)


def _check_parameters(asked: ChatCompletionRequest) -> None:
    """Raise InvalidRequest for a tool whose arguments are no object, or cannot be held to a schema that is enforced."""
    choice = asked.tool_choice
    named = choice.function.name if isinstance(choice, NamedToolChoice) else None
    for index, tool in enumerate(asked.tools or ()):
        function = tool.function
        type_ = (function.parameters or {}).get("type", "object")
        if type_ != "object":
            raise _parameters_refused(index, function, f"they are an object, but the schema's type is {type_!r}")
        held = choice == "required" or function.name == named or (choice in (None, "auto") and function.strict)
        schema = arguments_schema(function) if held else None
        if schema is not None:
            try:
                enforceable(schema)
            except InvalidRequest as error:
                raise _parameters_refused(index, function, error.detail) from error


def _parameters_refused(index: int, function: FunctionDefinition, why: str) -> InvalidRequest:
    param = f"tools[{index}].function.parameters"
    return InvalidRequest(bounded(f"{param}: the arguments of {function.name!r}: {why}."), param=param)
