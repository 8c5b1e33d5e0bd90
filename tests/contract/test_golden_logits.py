"""The embedded runtime's logits against a float64 reference, for every architecture, format and precision we read.

Everything is computed in float32 here, whatever the machine would choose, so that the tolerances are the
arithmetic's own.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import openvino as ov
import openvino.opset15 as op
import pytest

from forebay.core.errors import ModelFileError
from forebay.engine.runtime.decoder_graph import build_decoder
from forebay.engine.runtime.paged_graph import to_paged
from forebay.engine.runtime.weight_compression import INT4_GROUP, quantise_int4, quantise_int8
from forebay.engine.settings import WeightPrecision
from forebay.modelfiles.loading import load
from forebay.modelfiles.model import DecoderConfig, ModelFiles, WeightSource
from tests.support.numpy_decoder import reference_logits
from tests.support.tiny_models import TinyModel, Weights, tiny_model, write_gguf, write_huggingface

ARCHITECTURES = ("llama", "qwen2", "qwen3")
BLOCK_SIZE = 32
NUM_BLOCKS = 16
NUM_TOP = 8
TOLERANCE = 2e-4
PROMPT = [int(token) for token in np.random.default_rng(3).integers(3, 384, 75)]
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
GGUF_KINDS = (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_1)


class PagedModel:
    """A compiled paged graph with blocks of its own."""

    def __init__(self, model: ov.Model) -> None:
        options = {
            "INFERENCE_PRECISION_HINT": ov.Type.f32,
            "KV_CACHE_PRECISION": ov.Type.f32,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
            "ENABLE_CPU_PINNING": False,
        }
        compiled = ov.Core().compile_model(to_paged(model, NUM_TOP), "CPU", options)
        self._request = compiled.create_infer_request()
        for port in compiled.inputs:
            name = port.get_any_name()
            if "cache" in name:
                block = [dim.get_length() for dim in list(port.get_partial_shape())[1:]]
                assert block[1] == BLOCK_SIZE
                self._request.set_tensor(name, ov.Tensor(np.full([NUM_BLOCKS, *block], np.nan, dtype=np.float32)))

    def step(
        self,
        parts: Sequence[tuple[Sequence[int], int, Sequence[int]]],
        sampled: Sequence[int],
        inverse_temperature: float = 1.0,
    ) -> dict[str, npt.NDArray[np.float32]]:
        """Run (token ids, start, block table) of each sequence; sample the step's tokens `sampled`."""
        lengths = [len(tokens) for tokens, _, _ in parts]
        tables = [table[: -(-(start + len(tokens)) // BLOCK_SIZE)] for tokens, start, table in parts]
        ids = np.array([token for tokens, _, _ in parts for token in tokens], dtype=np.int64)
        positions = [start + i for tokens, start, _ in parts for i in range(len(tokens))]
        inputs = {
            "input_ids": ids,
            "position_ids": np.array(positions, dtype=np.int64),
            "past_lens": np.array([start for _, start, _ in parts], dtype=np.int32),
            "subsequence_begins": np.cumsum([0, *lengths]).astype(np.int32),
            "block_indices": np.array([block for table in tables for block in table], dtype=np.int32),
            "block_indices_begins": np.cumsum([0, *map(len, tables)]).astype(np.int32),
            "max_context_len": np.array(max(positions) + 1, dtype=np.int32),
            "sampled_positions": np.array(sampled, dtype=np.int32),
            "inverse_temperature": np.full(len(sampled), inverse_temperature, dtype=np.float32),
        }
        for name, values in inputs.items():
            self._request.set_tensor(name, ov.Tensor(values))
        self._request.infer()
        names = ("logits", "top_values", "top_ids", "log_normaliser")
        return {name: self._request.get_tensor(name).data.copy() for name in names}

    def whole(self, token_ids: Sequence[int], table: Sequence[int] = (0, 1, 2)) -> npt.NDArray[np.float32]:
        """Logits after each token, in one step."""
        return self.step([(token_ids, 0, table)], range(len(token_ids)))["logits"]


def paged(source: Path, precision: WeightPrecision = "f32") -> PagedModel:
    return PagedModel(build_decoder(*decoder_of(load(str(source), source.parent)), precision))


def decoder_of(model: ModelFiles) -> tuple[DecoderConfig, WeightSource]:
    assert model.config is not None
    assert model.weights is not None
    return model.config, model.weights


def largest_error(actual: npt.NDArray[np.float32], model: TinyModel, weights: Weights) -> float:
    expected = reference_logits(model.config, weights, PROMPT)
    assert actual.shape == expected.shape
    return float(np.abs(actual - expected).max())


@pytest.mark.parametrize("kind", GGUF_KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gguf_model_agrees_with_the_reference(
    architecture: str, kind: gguf.GGMLQuantizationType, tmp_path: Path
) -> None:
    model = tiny_model(architecture, tied=kind is not gguf.GGMLQuantizationType.Q8_0)
    stored = write_gguf(model, tmp_path / "tiny.gguf", kind)
    assert largest_error(paged(tmp_path / "tiny.gguf").whole(PROMPT), model, stored) < TOLERANCE


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_hugging_face_model_agrees_with_the_reference(architecture: str, dtype: str, tmp_path: Path) -> None:
    model = tiny_model(architecture, tied=dtype == "bfloat16")
    stored = write_huggingface(model, tmp_path / "tiny", dtype, shards=2 if dtype == "float16" else 1)
    assert largest_error(paged(tmp_path / "tiny").whole(PROMPT), model, stored) < TOLERANCE


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_chunks_over_shuffled_blocks_agree_with_the_reference(architecture: str, tmp_path: Path) -> None:
    model = tiny_model(architecture)
    write_gguf(model, tmp_path / "tiny.gguf")
    runtime, table = paged(tmp_path / "tiny.gguf"), [11, 3, 7]
    cuts = [0, 1, 32, 40, 73, 74, 75]
    chunks = [
        runtime.step([(PROMPT[begin:end], begin, table)], range(end - begin))["logits"] for begin, end in pairwise(cuts)
    ]
    assert largest_error(np.concatenate(chunks), model, model.weights) < TOLERANCE


def test_sequences_of_one_step_do_not_see_each_other(tmp_path: Path) -> None:
    model = tiny_model("llama")
    write_gguf(model, tmp_path / "tiny.gguf")
    runtime = paged(tmp_path / "tiny.gguf")
    other = PROMPT[::-1][:40]
    runtime.step([(PROMPT[:50], 0, [9, 1, 4]), (other[:39], 0, [0, 15])], [])
    both = runtime.step([(PROMPT[50:], 50, [9, 1, 4]), (other[39:], 39, [0, 15])], [24, 25])["logits"]
    assert np.abs(both[0] - reference_logits(model.config, model.weights, PROMPT)[-1]).max() < TOLERANCE
    assert np.abs(both[1] - reference_logits(model.config, model.weights, other)[-1]).max() < TOLERANCE


@pytest.mark.parametrize("precision", ["f16", "int8", "int4"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compressed_weights_agree_with_the_reference_over_the_same_values(
    architecture: str, precision: WeightPrecision, tmp_path: Path
) -> None:
    model = tiny_model(architecture, tied=architecture != "qwen2")
    write_huggingface(model, tmp_path / "tiny")
    compressed = {name: as_compressed(name, value, precision) for name, value in model.weights.items()}
    logits = paged(tmp_path / "tiny", precision).whole(PROMPT)
    assert largest_error(logits, model, compressed) < 2e-3
    assert largest_error(logits, model, model.weights) > 1e-4, "the weights were not compressed at all"


def as_compressed(name: str, value: npt.NDArray[np.float32], precision: str) -> npt.NDArray[np.float32]:
    """The values that the graph should multiply by."""
    if value.ndim == 1:
        return value
    if precision == "f16":
        return value.astype(np.float16).astype(np.float32)
    table = name in ("model.embed_tokens.weight", "lm_head.weight")
    if precision == "int4" and not table and value.shape[1] % INT4_GROUP == 0:
        groups = quantise_int4(value)
        return (groups.values * groups.scales.astype(np.float32)).reshape(value.shape)
    rows = quantise_int8(value)
    return (rows.values.astype(np.float32) - rows.zero_points) * rows.scales.astype(np.float32)


@pytest.mark.parametrize("form", ["gguf", "huggingface"])
@pytest.mark.parametrize("scaling", [{"rope_type": "linear", "factor": 4.0}, LLAMA3_SCALING], ids=["linear", "llama3"])
def test_scaled_rotation_agrees_with_the_reference(scaling: Mapping[str, object], form: str, tmp_path: Path) -> None:
    model = tiny_model("llama", rope_scaling=scaling)
    source = tmp_path / "tiny.gguf"
    if form == "gguf":
        write_gguf(model, source)
    else:
        write_huggingface(model, source)
    logits = paged(source).whole(PROMPT)
    assert largest_error(logits, model, model.weights) < TOLERANCE
    unscaled = TinyModel({**model.config, "rope_scaling": None}, model.weights, model.tokenizer)
    assert largest_error(logits, unscaled, model.weights) > 0.1, "the prompt is too short for the scaling to matter"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagedModel]:
    folder = tmp_path_factory.mktemp("small")
    write_huggingface(tiny_model("qwen2"), folder)
    yield paged(folder)


def test_sampling_outputs_are_of_the_logits_over_temperature(small: PagedModel) -> None:
    outputs = small.step([(PROMPT, 0, [0, 1, 2])], [10, 74], inverse_temperature=2.5)
    scaled = outputs["logits"].astype(np.float64) * 2.5
    order = np.argsort(-scaled, axis=1)[:, :NUM_TOP]
    assert outputs["top_ids"].tolist() == order.tolist()
    assert outputs["top_ids"].dtype == np.int32
    np.testing.assert_allclose(outputs["top_values"], np.take_along_axis(scaled, order, axis=1), rtol=1e-5)
    np.testing.assert_allclose(outputs["log_normaliser"], np.log(np.exp(scaled).sum(axis=1)), rtol=1e-5)


def test_a_step_may_sample_nothing(small: PagedModel) -> None:
    outputs = small.step([(PROMPT[:40], 0, [4, 5])], [])
    assert {name: values.shape for name, values in outputs.items()} == {
        "logits": (0, 384),
        "top_values": (0, NUM_TOP),
        "top_ids": (0, NUM_TOP),
        "log_normaliser": (0,),
    }
    after = small.step([(PROMPT[40:], 40, [4, 5, 6])], [34])["logits"]
    np.testing.assert_allclose(after[0], small.whole(PROMPT)[-1], atol=TOLERANCE)


def test_very_cold_sampling_stays_finite(small: PagedModel) -> None:
    outputs = small.step([(PROMPT, 0, [0, 1, 2])], [74], inverse_temperature=1e4)
    np.testing.assert_allclose(outputs["log_normaliser"][0], outputs["top_values"][0, 0], rtol=1e-6)


def test_more_candidates_than_the_vocabulary_has_become_all_of_it(tmp_path: Path) -> None:
    write_gguf(tiny_model("llama"), tmp_path / "tiny.gguf")
    graph = to_paged(build_decoder(*decoder_of(load(str(tmp_path / "tiny.gguf"), tmp_path)), "f32"), 10_000)
    assert graph.output("top_ids").get_partial_shape()[1].get_length() == 384


def test_an_ir_file_becomes_paged_as_the_built_graph_does(tmp_path: Path) -> None:
    write_huggingface(tiny_model("qwen3"), tmp_path)
    built = paged(tmp_path).whole(PROMPT)
    graph = build_decoder(*decoder_of(load(str(tmp_path), tmp_path)), "f32")
    ov.save_model(graph, tmp_path / "openvino_model.xml", compress_to_fp16=False)
    exported = load(str(tmp_path), tmp_path)
    assert exported.graph == tmp_path / "openvino_model.xml"
    np.testing.assert_allclose(PagedModel(ov.Core().read_model(exported.graph)).whole(PROMPT), built, atol=1e-5)


def test_logits_that_are_scaled_and_capped_are_still_sampled_before_the_head(tmp_path: Path) -> None:
    write_huggingface(tiny_model("llama"), tmp_path)
    plain = load(str(tmp_path), tmp_path)
    graph = build_decoder(*decoder_of(plain), "f32")
    result = graph.get_results()[0]
    capped = op.tanh(op.divide(op.multiply(np.float32(0.5), result.input_value(0)), np.float32(30)))
    result.input(0).replace_source_output(op.multiply(capped, np.float32(30)).output(0))
    logits = PagedModel(graph).step([(PROMPT, 0, [0, 1, 2])], [74])["logits"]
    expected = 30 * np.tanh(0.5 * paged(tmp_path).whole(PROMPT)[-1:] / 30)
    np.testing.assert_allclose(logits, expected, atol=TOLERANCE)


def test_a_graph_without_state_is_refused() -> None:
    ids = op.parameter([-1, 8], ov.Type.f32, name="input_ids")
    graph = ov.Model([op.result(op.relu(ids))], [ids], "stateless")
    with pytest.raises(ModelFileError, match=r"no ReadValue and no Assign and no ScaledDotProductAttention.*export it"):
        to_paged(graph, NUM_TOP)
