"""Models that mark their reasoning, and grammars that leave room for it."""

import re
from dataclasses import dataclass, replace

from forebay.engine.request import Grammar
from forebay.modelfiles.model import ModelFiles
from forebay.replica.dialects.lark import TokenId, expression, marker, pattern
from forebay.replica.dialects.reasoning import CLOSING, OPENING, Reasoning

_SPACE = r"space: /[ \t\r\n]*/"


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """A model's `<think>` and `</think>`."""

    token_id: TokenId

    @classmethod
    def of(cls, model: ModelFiles) -> "ReasoningMarks | None":
        """None for a model whose template and vocabulary do not know them."""
        template = model.chat_template
        if model.tokenizer.token_id(CLOSING) is None and (template is None or CLOSING not in template.source):
            return None
        return cls(model.tokenizer.token_id)

    def before(self, grammar: Grammar, reasoning: Reasoning) -> Grammar:
        """`grammar`, begun once the reasoning is over. Where that may not come at all, either is allowed, so that no
        output escapes the grammar. Raises InvalidRequest for one that cannot be joined with it.
        """
        closing = self.token_id(CLOSING)
        if reasoning == "over":
            return grammar
        if reasoning == "begun" and closing is not None:
            return replace(grammar, after_token_id=closing)
        start = "" if reasoning == "begun" else marker(OPENING, self.token_id)
        if closing is None:
            thought = f"thought: {start} thinking\nthinking[lazy]: {pattern('(?s:.*)' + re.escape(CLOSING))}"
        else:
            thought = f"thought: {start} {pattern('(?s:.*)')} {marker(CLOSING, self.token_id)}"
        first = "thought space" if reasoning == "begun" else "(thought space)?"
        lines = (f"start: {first} answer", thought, _SPACE, f"answer: {expression(grammar)}")
        return Grammar("lark", "\n".join(lines) + "\n", param=grammar.param)
