"""Hugging Face and OpenVINO IR folders: what is read, and what is refused by name."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from forebay.core.errors import ModelFileError
from forebay.modelfiles.huggingface import load_huggingface
from forebay.modelfiles.openvino_ir import load_openvino_ir
from tests.support.tiny_models import HuggingFaceDtype, tiny_model, write_huggingface


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_huggingface(tiny_model("qwen2", tied=False), tmp_path / "Tiny Qwen2")
    return tmp_path / "Tiny Qwen2"


def change(path: Path, **values: object) -> None:
    """Replace values of a JSON file; None removes them."""
    content = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def refusal(folder: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        load_huggingface(folder)
    return caught.value.detail


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shards", [1, 3])
def test_weights_are_those_written(dtype: HuggingFaceDtype, shards: int, tmp_path: Path) -> None:
    stored = write_huggingface(tiny_model("qwen3"), tmp_path, dtype, shards=shards)
    weights = load_huggingface(tmp_path).weights
    assert weights is not None
    assert sorted(weights.names()) == sorted(stored)
    for name, expected in stored.items():
        np.testing.assert_array_equal(weights.tensor(name), expected, err_msg=name)


def test_what_stands_beside_the_weights_is_read(folder: Path) -> None:
    model = load_huggingface(folder)
    assert model.name == "tiny-qwen2"
    assert model.context_window == 512
    assert model.eos_token_ids == {0, 2}
    assert model.config is not None
    assert (model.config.attention_bias, model.config.qk_norm, model.config.tie_word_embeddings) == (True, False, False)
    assert model.chat_template is not None
    assert model.chat_template.render([{"role": "user", "content": "x"}]).startswith("<|im_start|>user")


def test_rotary_parameters_are_read_in_their_newer_form(folder: Path) -> None:
    rope = {"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0}
    change(folder / "config.json", rope_theta=None, rope_parameters=rope)
    config = load_huggingface(folder).config
    assert config is not None
    assert config.rope_theta == 5e5
    assert config.rope_scaling == rope
    change(folder / "config.json", rope_parameters={"rope_theta": 7e5, "rope_type": "default"})
    config = load_huggingface(folder).config
    assert config is not None
    assert (config.rope_theta, config.rope_scaling) == (7e5, None)


def test_a_template_file_goes_before_the_one_in_the_tokenizers_configuration(folder: Path) -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "{{ bos_token }}named"}]
    change(folder / "tokenizer_config.json", chat_template=named)
    template = load_huggingface(folder).chat_template
    assert template is not None
    assert template.render([]) == "<|im_start|>named"
    (folder / "chat_template.jinja").write_text("{{ eos_token }}file")
    template = load_huggingface(folder).chat_template
    assert template is not None
    assert template.render([]) == "<|im_end|>file"


def test_a_base_model_has_no_template_and_ends_where_its_configuration_says(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    (folder / "generation_config.json").unlink()
    model = load_huggingface(folder)
    assert model.chat_template is None
    assert model.eos_token_ids == {2}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model_type": "gemma3"}, "'gemma3' is an architecture that cannot be loaded; supported are llama, qwen2"),
        ({"model_type": "qwen3_moe"}, "'qwen3_moe' is a mixture of experts"),
        ({"model_type": None}, "'model_type' must be a text, but it is missing"),
        ({"hidden_size": "big"}, "'hidden_size' must be an integer, but found 'big'"),
        ({"num_attention_heads": 0}, "0 attention heads"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "'gptq' quantised checkpoints cannot be read"),
        ({"quantization_config": {"quant_method": "awq"}}, "'awq' quantised checkpoints cannot be read"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope scaling 'yarn' is not supported; default, linear"),
        ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1}, "sliding window attention"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding window attention"),
        ({"hidden_act": "gelu"}, "activation 'gelu' is not supported"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"partial_rotary_factor": 0.5}, "partial rotation"),
        ({"architectures": ["Qwen2ForSequenceClassification"]}, "SequenceClassification' does not generate text"),
        ({"num_hidden_layers": 3}, "no tensor 'model.layers.2."),
        ({"vocab_size": 400}, "shape [384, 128], but the model's configuration says [400, 128]"),
        ({"eos_token_id": "</s>"}, "'eos_token_id' must be token ids, found '</s>'"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_named(values: dict[str, object], words: str, folder: Path) -> None:
    change(folder / "config.json", **values)
    message = refusal(folder)
    assert words in message
    assert str(folder) in message


@pytest.mark.parametrize(
    "values",
    [
        {"use_sliding_window": False, "sliding_window": 64, "max_window_layers": 1},
        {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2},
        {"use_sliding_window": True, "sliding_window": None},
        {"layer_types": ["full_attention"] * 2},
    ],
)
def test_a_window_that_no_layer_uses_does_no_harm(values: dict[str, object], folder: Path) -> None:
    change(folder / "config.json", **values)
    assert load_huggingface(folder).config is not None


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    assert f"has no {name}" in refusal(folder)


def test_pickled_weights_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "only as pickled PyTorch files" in refusal(folder)


def test_a_missing_shard_is_named(folder: Path) -> None:
    write_huggingface(tiny_model("qwen2", tied=False), folder, shards=2)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "model-00002-of-00002.safetensors does not exist" in refusal(folder)


@pytest.mark.parametrize("size", [0, 5, 100, 5000, -4])
def test_weights_cut_short_are_refused(size: int, folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:size])
    assert "model.safetensors" in refusal(folder)


def test_damaged_headers_and_json_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes((9).to_bytes(8, "little") + b'{"a": [1]' + bytes(20))
    assert "header is damaged" in refusal(folder)
    weights.write_bytes((12).to_bytes(8, "little") + b'{"a": {"b":1' + b"}}" + bytes(20))
    assert "header is damaged" in refusal(folder)
    (folder / "config.json").write_text("{")
    assert "cannot be read as JSON" in refusal(folder)
    (folder / "config.json").write_text("[]")
    assert "must hold a JSON object, not list" in refusal(folder)


def test_a_quantised_tensor_is_refused_when_it_is_read(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes().replace(b'"dtype": "F32"', b'"dtype": "I32"'))
    source = load_huggingface(folder).weights
    assert source is not None
    with pytest.raises(ModelFileError, match=r"is stored as I32; F64, F32, F16, BF16 can be read.*unquantised"):
        source.tensor("model.norm.weight")


@pytest.fixture
def ir_folder(folder: Path) -> Path:
    (folder / "openvino_model.xml").write_text(
        '<net><layer><data element_type="f32" shape="4" offset="0" size="16" /></layer>'
        '<layer><data element_type="f32" shape="2" offset="16" size="8" /></layer></net>'
    )
    (folder / "openvino_model.bin").write_bytes(bytes(24))
    (folder / "model.safetensors").unlink()
    return folder


def test_an_ir_folder_gives_its_graph_and_what_stands_beside_it(ir_folder: Path) -> None:
    model = load_openvino_ir(ir_folder)
    assert model.graph == ir_folder / "openvino_model.xml"
    assert (model.config, model.weights) == (None, None)
    assert (model.name, model.context_window, model.eos_token_ids) == ("tiny-qwen2", 512, {0, 2})
    assert model.chat_template is not None


def test_an_ir_folder_may_hold_any_architecture(ir_folder: Path) -> None:
    change(ir_folder / "config.json", model_type="gemma3")
    assert load_openvino_ir(ir_folder).context_window == 512


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openvino_model.xml", r"has no openvino_model\.xml"),
        ("openvino_model.bin", r"has openvino_model\.xml but no openvino_model\.bin"),
        ("config.json", r"has no config\.json"),
        ("tokenizer.json", r"has no tokenizer\.json"),
    ],
)
def test_a_missing_ir_file_is_named(name: str, words: str, ir_folder: Path) -> None:
    (ir_folder / name).unlink()
    with pytest.raises(ModelFileError, match=words):
        load_openvino_ir(ir_folder)


def test_ir_weights_cut_short_are_refused(ir_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(ir_folder, tmp_path / "cut")
    (tmp_path / "cut" / "openvino_model.bin").write_bytes(bytes(23))
    with pytest.raises(ModelFileError, match=r"openvino_model\.bin is cut short: it has 23 bytes of 24"):
        load_openvino_ir(tmp_path / "cut")
