"""A model's own chat template."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from forebay.core.errors import InvalidRequest, ModelFileError


class ChatTemplate:
    """Turns messages into the text that the model was trained on. `source` is Jinja, run in a sandbox; `variables` are
    the names that it looks up from outside, among them `tools` where it knows tools.

    `now` gives the local time to templates that write the date. Raises ModelFileError where the source is no template.
    """

    def __init__(
        self,
        source: str,
        *,
        bos_token: str,
        eos_token: str,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _GenerationBlock]
        )
        environment.filters["tojson"] = _to_json

        def strftime_now(pattern: str) -> str:
            return now().strftime(pattern)

        # As the environment's: those given to a template are looked up through a chain at each rendering.
        functions: dict[str, Any] = {"raise_exception": _refuse, "strftime_now": strftime_now}
        environment.globals.update(functions)
        try:
            self._template = environment.from_string(source)
            self.variables = frozenset(meta.find_undeclared_variables(environment.parse(source)))
        except TemplateSyntaxError as error:
            raise ModelFileError(
                f"the model's chat template is not valid Jinja, line {error.lineno}: {error.message}"
            ) from error
        self.source = source
        self._bos_token = bos_token
        self._eos_token = eos_token

    def render(
        self, messages: Sequence[Mapping[str, object]], *, add_generation_prompt: bool = True, **variables: object
    ) -> str:
        """The prompt text. `variables` (such as `tools`) reach the template as they are.

        Raises InvalidRequest with the template's own words where it does not take these messages.
        """
        try:
            return self._template.render(
                {
                    **variables,
                    "messages": [dict(message) for message in messages],
                    "add_generation_prompt": add_generation_prompt,
                    "bos_token": self._bos_token,
                    "eos_token": self._eos_token,
                }
            )
        # A template is a program: what it does to an unexpected message may raise any of these.
        except (
            TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError
        ) as error:  # fmt: skip
            raise InvalidRequest(
                f"the model's chat template does not take these messages: {error}", param="messages"
            ) from error


class _GenerationBlock(Extension):
    """`{% generation %}` marks what a trainer learns from; for inference it is only its content."""

    tags = frozenset({"generation"})  # pyright: ignore[reportAssignmentType]  # Jinja reads it only

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own escapes for HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
