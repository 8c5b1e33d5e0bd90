"""Chat templates: rendered as the model was trained, refused in the template's own words."""

from datetime import datetime

import pytest

from forebay.core.errors import InvalidRequest, ModelFileError
from forebay.modelfiles.chat_template import ChatTemplate


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>", now=lambda: datetime(2024, 7, 26, 12, 30))


HELLO = [{"role": "user", "content": "Hello"}]


def test_messages_and_special_tokens_are_rendered() -> None:
    source = "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}] {{ m.content }}{{ eos_token }}{% endfor %}"
    assert template(source).render(HELLO) == "<s>[user] Hello</s>"


@pytest.mark.parametrize(("wanted", "expected"), [(True, "Hello\n> "), (False, "Hello\n")])
def test_generation_prompt_is_added_only_on_request(wanted: bool, expected: str) -> None:
    source = "{{ messages[0].content + '\n' }}{% if add_generation_prompt %}{{ '> ' }}{% endif %}"
    assert template(source).render(HELLO, add_generation_prompt=wanted) == expected


def test_blocks_leave_no_whitespace() -> None:
    source = "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}"
    assert template(source).render(HELLO) == "Hello\n"


def test_text_is_not_escaped_for_html() -> None:
    tools = [{"name": "größe", "note": "<a & 'b'>"}]
    rendered = template("{{ tools | tojson }}|{{ messages[0].content }}").render(
        [{"role": "user", "content": "<b>&"}], tools=tools
    )
    assert rendered == """[{"name": "größe", "note": "<a & 'b'>"}]|<b>&"""


def test_json_can_be_indented() -> None:
    assert template("{{ value | tojson(indent=2) }}").render(HELLO, value={"a": 1}) == '{\n  "a": 1\n}'


def test_loop_controls_and_generation_blocks_are_known() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}"
        "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    )
    assert template(source).render([{"role": "system", "content": "x"}, *HELLO]) == "Hello"


def test_the_date_is_written_as_the_template_asks() -> None:
    assert template("{{ strftime_now('%d %b %Y') }}").render(HELLO) == "26 Jul 2024"


def test_variables_do_not_replace_the_messages() -> None:
    assert template("{{ bos_token }}{{ x }}").render(HELLO, x=1, bos_token="other") == "<s>1"


def test_a_template_that_refuses_is_quoted() -> None:
    source = "{{ raise_exception('Conversation roles must alternate user/assistant') }}"
    with pytest.raises(InvalidRequest, match="Conversation roles must alternate user/assistant") as caught:
        template(source).render(HELLO)
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ messages[0].content + 'x' }}", {"role": "user", "content": None}),
        ("{{ messages[3].content.strip() }}", {"role": "user", "content": "x"}),
        ("{{ messages[0].content | int(base=99) + 1 // 0 }}", {"role": "user", "content": "x"}),
    ],
)
def test_messages_that_a_template_stumbles_over_are_the_clients_fault(source: str, message: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match="does not take these messages") as caught:
        template(source).render([message])
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{% set _ = messages.append({'role': 'user'}) %}",
    ],
)
def test_a_template_cannot_leave_the_sandbox(source: str) -> None:
    with pytest.raises(InvalidRequest, match="unsafe"):
        template(source).render(HELLO)


def test_a_template_tells_its_source_and_what_it_looks_up() -> None:
    source = (
        "{% if not tools is defined %}{% set tools = none %}{% endif %}{% for m in messages %}{{ m.x }}{% endfor %}"
    )
    assert template(source).source == source
    assert template(source).variables == {"tools", "messages"}
    assert "tools" not in template("{{ messages[0].tools }}").variables


def test_a_value_nested_beyond_all_sense_is_the_clients_fault() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(InvalidRequest, match="does not take these messages"):
        template("{{ value | tojson }}").render(HELLO, value=nested)


def test_a_template_that_is_no_jinja_cannot_be_loaded() -> None:
    with pytest.raises(ModelFileError, match=r"not valid Jinja, line 2: .*endfor"):
        template("{{ bos_token }}\n{% for m in messages %}")
