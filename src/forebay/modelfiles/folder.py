"""What Hugging Face and OpenVINO IR folders have in common beside their weights."""

from pathlib import Path
from typing import cast

from forebay.core.errors import ModelFileError
from forebay.modelfiles.chat_template import ChatTemplate
from forebay.modelfiles.fields import Fields
from forebay.modelfiles.tokenizer import ModelTokenizer


def context_window(fields: Fields) -> int:
    """Tokens that config.json lets a sequence have."""
    return fields.integer("max_position_embeddings")


def end_tokens(folder: Path, config: Fields, tokenizer: ModelTokenizer) -> frozenset[int]:
    """Every token that generation_config.json, config.json or tokenizer_config.json names as an end."""
    sources = [config, *_optional(folder / "generation_config.json")]
    found = {token for source in sources for token in _token_ids(source, "eos_token_id")}
    by_text = tokenizer.token_id(_special_texts(folder)[1])
    return frozenset(found if by_text is None else found | {by_text})


def chat_template(folder: Path) -> ChatTemplate | None:
    """From chat_template.jinja, else from tokenizer_config.json; None where the model has none (a base model)."""
    bos, eos = _special_texts(folder)
    alone = folder / "chat_template.jinja"
    if alone.is_file():
        source = alone.read_text(encoding="utf-8")
    else:
        source = next((_template_source(fields) for fields in _optional(folder / "tokenizer_config.json")), None)
    return ChatTemplate(source, bos_token=bos, eos_token=eos) if source else None


def _template_source(fields: Fields) -> str | None:
    """`chat_template` is a text, or a list of named ones of which `default` is meant."""
    value = fields.raw("chat_template")
    if value is None or isinstance(value, str):
        return value
    for entry in fields.sequence("chat_template"):
        named = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
        template = named.get("template")
        if named.get("name") == "default" and isinstance(template, str):
            return template
    raise ModelFileError(f"{fields.where}: none of its chat templates is named 'default'")


def _special_texts(folder: Path) -> tuple[str, str]:
    """The begin and end tokens as tokenizer_config.json writes them; empty where it has none."""
    for fields in _optional(folder / "tokenizer_config.json"):
        return _token_text(fields, "bos_token"), _token_text(fields, "eos_token")
    return "", ""


def _token_text(fields: Fields, key: str) -> str:
    value = fields.raw(key)
    if isinstance(value, dict):
        value = cast("dict[str, object]", value).get("content")
    return value if isinstance(value, str) else ""


def _token_ids(fields: Fields, key: str) -> list[int]:
    value = fields.raw(key)
    if value is None:
        return []
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    ids = [item for item in values if isinstance(item, int)]
    if len(ids) != len(values):
        raise ModelFileError(f"{fields.where}: {key!r} must be token ids, found {value!r:.80}")
    return ids


def _optional(path: Path) -> list[Fields]:
    return [Fields.from_json(path)] if path.is_file() else []
