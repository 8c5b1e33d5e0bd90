"""GGUF files: what is read, and what is refused by name."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from forebay.core.errors import ModelFileError
from forebay.modelfiles.gguf import load_gguf
from forebay.modelfiles.gguf_file import GgufFile
from tests.support.tiny_models import tiny_model, write_gguf


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    write_gguf(tiny_model("llama"), path)
    return path


def write(path: Path, architecture: str, *values: Callable[[gguf.GGUFWriter], None]) -> Path:
    """A file of metadata alone."""
    writer = gguf.GGUFWriter(path, architecture)
    for add in values:
        add(writer)
    writer.add_tensor("token_embd.weight", np.zeros((8, 64), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def sizes(writer: gguf.GGUFWriter) -> None:
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_configuration_and_weights_are_those_written(architecture: str, tmp_path: Path) -> None:
    written = tiny_model(architecture, tied=False)
    stored = write_gguf(written, tmp_path / "tiny.gguf", gguf.GGMLQuantizationType.Q8_0)
    model = load_gguf(tmp_path / "tiny.gguf")
    assert model.name == f"tiny-{architecture}-random"
    assert model.context_window == 512
    assert model.eos_token_ids == {0, 2}
    assert model.chat_template is not None
    assert model.chat_template.render([{"role": "user", "content": "x"}]).startswith("<|im_start|>user\nx<|im_end|>")
    assert model.config is not None
    assert model.weights is not None
    for ours, theirs in {
        "architecture": "model_type", "num_layers": "num_hidden_layers", "hidden_size": "hidden_size",
        "intermediate_size": "intermediate_size", "num_heads": "num_attention_heads",
        "num_kv_heads": "num_key_value_heads", "head_dim": "head_dim", "vocab_size": "vocab_size",
        "rope_theta": "rope_theta", "tie_word_embeddings": "tie_word_embeddings",
    }.items():  # fmt: skip
        assert getattr(model.config, ours) == written.config[theirs], ours
    assert model.config.attention_bias is (architecture == "qwen2")
    assert model.config.qk_norm is (architecture == "qwen3")
    assert sorted(model.weights.names()) == sorted(stored)
    for name, expected in stored.items():
        np.testing.assert_array_equal(model.weights.tensor(name), expected, err_msg=name)


KINDS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")


@pytest.mark.parametrize("kind", KINDS)
def test_every_common_storage_is_read_as_its_values(kind: str, tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((6, 64)).astype(np.float32)
    stored = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(tmp_path / "one.gguf", "llama")
    writer.add_tensor("w", gguf.quants.quantize(values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = GgufFile(tmp_path / "one.gguf").read("w")
    assert read.dtype == np.float32
    assert read.shape == (6, 64)
    error = np.abs(read - values).max()
    assert error < {"F32": 1e-9, "F16": 2e-3, "BF16": 2e-2, "Q8_0": 2e-2}.get(kind, 0.5)


def test_a_file_cut_anywhere_is_refused(tiny: Path, tmp_path: Path) -> None:
    content = tiny.read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [0, 3, 4, 20, 60, 500, 5_000, len(content) // 2, len(content) - 40]:
        cut.write_bytes(content[:size])
        with pytest.raises(ModelFileError, match=r"cut\.gguf"):
            load_gguf(cut)
    assert "download it again" in refusal(cut)


def refusal(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        load_gguf(path)
    return caught.value.detail


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "zip.gguf"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert "is not a GGUF file" in refusal(path)
    path.write_bytes(b"GGUF" + (1).to_bytes(4, "little") + bytes(100))
    assert "version 1 cannot be read: versions 2 and 3 can" in refusal(path)
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "big") + bytes(100))
    assert "big endian" in refusal(path)
    assert "does not exist" in refusal(tmp_path / "none.gguf")


@pytest.mark.parametrize(
    ("architecture", "values", "words"),
    [
        ("gemma3", [], "'gemma3' is an architecture that cannot be loaded; supported are llama, qwen2, qwen3"),
        ("qwen2moe", [], "'qwen2moe' is a mixture of experts"),
        ("llama", [sizes, lambda w: w.add_expert_count(8)], "with experts (MoE)"),
        ("llama", [lambda w: w.add_context_length(128)], "'llama.embedding_length' must be an integer, but it"),
        ("llama", [sizes, lambda w: w.add_rope_dimension_count(16)], "partial rotation (16 of 32 elements)"),
        ("llama", [sizes, lambda w: w.add_value_length(16)], "values of 16 beside keys of 32"),
        ("qwen2", [sizes, lambda w: w.add_sliding_window(64)], "sliding window attention (64 tokens)"),
        ("llama", [sizes, lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN)], "rope scaling 'yarn'"),
        ("llama", [sizes, lambda w: w.add_uint16("split.count", 3)], "llama-gguf-split --merge"),
        ("llama", [lambda w: w.add_type("adapter")], "holds 'adapter', not a model"),
        ("llama", [sizes, lambda w: w.add_key_length(33)], "do not fit each other"),
        ("llama", [sizes], "has no tensor 'model.norm.weight', which a llama model of 1 layers needs"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_named(
    architecture: str, values: list[Callable[[gguf.GGUFWriter], None]], words: str, tmp_path: Path
) -> None:
    assert words in refusal(write(tmp_path / "model.gguf", architecture, *values))


def test_a_tensor_of_the_wrong_shape_is_named(tmp_path: Path) -> None:
    model = tiny_model("qwen2")
    model.weights["model.layers.1.mlp.up_proj.weight"] = np.zeros((64, 128), dtype=np.float32)
    write_gguf(model, tmp_path / "tiny.gguf")
    assert "'model.layers.1.mlp.up_proj.weight' has shape [64, 128], but" in refusal(tmp_path / "tiny.gguf")


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    model = tiny_model("qwen3")
    del model.weights["model.layers.0.self_attn.k_norm.weight"]
    write_gguf(model, tmp_path / "tiny.gguf")
    assert "no tensor 'model.layers.0.self_attn.k_norm.weight'" in refusal(tmp_path / "tiny.gguf")


def test_asking_for_another_tensor_is_an_error_of_ours(tiny: Path) -> None:
    model = load_gguf(tiny)
    assert model.weights is not None
    with pytest.raises(ModelFileError, match=r"no tensor for 'lm_head\.weight'"):
        model.weights.tensor("lm_head.weight")
