"""The tokenizer that a GGUF file describes in its metadata."""

from collections.abc import Sequence
from typing import Final, cast

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from forebay.core.errors import ModelFileError
from forebay.modelfiles.fields import Fields
from forebay.modelfiles.tokenizer import ModelTokenizer

UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6
"""Values of `tokenizer.ggml.token_type` that matter here; 1 is a normal piece."""

_SPACE = "▁"
_DIGITS_ALONE: Final = ("smollm", "starcoder", "refact", "command-r")
_PLAIN: Final = ("default", "gpt-2", "gpt2")
_WORDS: Final = {
    # Each number of up to `digits` digits is a word of its own; a word takes one leading mark or space with it.
    kind: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    + digits
    + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    for kind, digits in {
        "qwen2": "",
        "deepseek-r1-qwen": "",
        "llama-bpe": "{1,3}",
        "llama3": "{1,3}",
        "llama-v3": "{1,3}",
        "dbrx": "{1,3}",
        "smaug-bpe": "{1,3}",
    }.items()
}
_LLAMA3: Final = ("llama-bpe", "llama3", "llama-v3")


def tokenizer_from_gguf(fields: Fields) -> ModelTokenizer:
    """Build the tokenizer from `tokenizer.ggml.*`; raises ModelFileError for a kind that is not known."""
    pieces = _texts(fields, "tokenizer.ggml.tokens")
    kind = fields.text("tokenizer.ggml.model")
    try:
        if kind == "gpt2":
            tokenizer = _byte_level(fields, pieces)
        elif kind == "llama":
            tokenizer = _sentence_piece(fields, pieces)
        else:
            raise ModelFileError(
                f"{fields.where}: tokenizer kind {kind!r} cannot be built; `gpt2` and `llama` can. "
                "Give the model as a Hugging Face folder with its tokenizer.json instead"
            )
    except ModelFileError:
        raise
    # The library raises plain Exception, for example where a merge names a piece that is not in the vocabulary.
    except Exception as error:
        raise ModelFileError(f"{fields.where}: its tokenizer is damaged: {error}") from error
    _mark_added(tokenizer, pieces, _kinds(fields, len(pieces)))
    _set_frame(tokenizer, fields, pieces, kind)
    return ModelTokenizer(tokenizer)


def _byte_level(fields: Fields, pieces: Sequence[str]) -> Tokenizer:
    pre = fields.text("tokenizer.ggml.pre", "default")
    merges = [_pair(merge) for merge in _texts(fields, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab=_ids(pieces), merges=merges, ignore_merges=pre in _LLAMA3))
    tokenizer.decoder = decoders.ByteLevel()
    if pre in _WORDS:
        split = pre_tokenizers.Split(Regex(_WORDS[pre]), "isolated")
        words = [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    elif pre in _DIGITS_ALONE:
        words = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    elif pre in _PLAIN:
        words = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    else:
        known = ", ".join([*_PLAIN, *_DIGITS_ALONE, *_WORDS])
        raise ModelFileError(
            f"{fields.where}: the way {pre!r} of cutting text into words is not known (known: {known}). "
            "Give the model as a Hugging Face folder with its tokenizer.json instead"
        )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(words)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def _sentence_piece(fields: Fields, pieces: Sequence[str]) -> Tokenizer:
    kinds = _kinds(fields, len(pieces))
    scores = fields.sequence("tokenizer.ggml.scores")
    if len(scores) != len(pieces):
        raise ModelFileError(f"{fields.where}: {len(scores)} scores for {len(pieces)} tokens: the file is damaged")
    special = {piece for piece, kind in zip(pieces, kinds, strict=True) if kind in (UNKNOWN, CONTROL, BYTE)}
    ranked = {piece: cast("float", score) for piece, score in zip(pieces, scores, strict=True) if piece not in special}
    unknown = next((piece for piece, kind in zip(pieces, kinds, strict=True) if kind == UNKNOWN), None)
    merges = _merges_by_score(ranked)
    tokenizer = Tokenizer(
        models.BPE(vocab=_ids(pieces), merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    prefixed = fields.flag("tokenizer.ggml.add_space_prefix", True)
    spaces = normalizers.Replace(" ", _SPACE)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), spaces] if prefixed else [spaces])
    steps = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prefixed else steps)
    return tokenizer


def _merges_by_score(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Pairs in the order in which SentencePiece joins them: the best-scored result first."""
    found = [
        (-score, -cut, piece[:cut], piece[cut:])
        for piece, score in scores.items()
        for cut in range(1, len(piece))
        if piece[:cut] in scores and piece[cut:] in scores
    ]
    return [(left, right) for _, _, left, right in sorted(found)]


def _mark_added(tokenizer: Tokenizer, pieces: Sequence[str], kinds: Sequence[object]) -> None:
    """Control tokens are special; user-defined ones are found in text, but shown when decoded."""
    special = [AddedToken(piece, special=True, normalized=False) for piece in _of_kind(pieces, kinds, CONTROL, UNKNOWN)]
    plain = [AddedToken(piece, special=False, normalized=False) for piece in _of_kind(pieces, kinds, USER_DEFINED)]
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(plain)


def _set_frame(tokenizer: Tokenizer, fields: Fields, pieces: Sequence[str], kind: str) -> None:
    """The begin and end tokens that a raw text gets."""
    begins = kind == "llama" or fields.text("tokenizer.ggml.pre", "default") in _LLAMA3
    ends = [
        (piece, fields.integer(f"tokenizer.ggml.{which}_token_id", -1))
        for which, piece, wanted in (("bos", "begin", begins), ("eos", "end", False))
        if fields.flag(f"tokenizer.ggml.add_{which}_token", wanted)
    ]
    named = {piece: pieces[token] for piece, token in ends if 0 <= token < len(pieces)}
    if not named:
        return
    single = [*([named["begin"]] if "begin" in named else []), "$A", *([named["end"]] if "end" in named else [])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(text, tokenizer.token_to_id(text)) for text in set(named.values())]
    )


def _of_kind(pieces: Sequence[str], kinds: Sequence[object], *wanted: int) -> list[str]:
    return [piece for piece, kind in zip(pieces, kinds, strict=True) if kind in wanted]


def _kinds(fields: Fields, count: int) -> Sequence[object]:
    kinds = fields.sequence("tokenizer.ggml.token_type", [1] * count)
    if len(kinds) != count:
        raise ModelFileError(f"{fields.where}: {len(kinds)} token types for {count} tokens: the file is damaged")
    return kinds


def _texts(fields: Fields, key: str) -> list[str]:
    values = fields.sequence(key)
    if not all(isinstance(value, str) for value in values):
        raise ModelFileError(f"{fields.where}: {key!r} must be a list of texts")
    return cast("list[str]", values)


def _ids(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: index for index, piece in enumerate(pieces)}


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right
