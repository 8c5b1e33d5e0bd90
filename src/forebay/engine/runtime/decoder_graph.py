"""A decoder (llama, qwen2, qwen3) as an OpenVINO graph in the stateful form that paged attention is made from.

Inputs `input_ids`, `attention_mask`, `position_ids` [batch, tokens] and `beam_idx` [batch]; output `logits` f32
[batch, tokens, vocab]; one key and one value state for each layer. Shapes of inner nodes are given beside them, with
b = batch, t = tokens of this call, s = tokens in the cache, h = heads, d = head size.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import openvino as ov
import openvino.opset15 as op
from openvino import Node, PartialShape, Type
from openvino.op.util import Variable, VariableInfo

from forebay.core.errors import ModelFileError
from forebay.engine.runtime.weight_compression import StoredPrecision, weight_node
from forebay.engine.settings import WeightPrecision
from forebay.modelfiles.model import DecoderConfig, WeightSource

_MASKED = np.float32(-65504.0)
"""What a score that must not be seen gets; finite in float16 too."""


def build_decoder(config: DecoderConfig, weights: WeightSource, precision: WeightPrecision = "auto") -> ov.Model:
    """The graph, its weights read one tensor at a time and stored at `precision` (`auto`: int8).

    Norms and biases stay float32. The embedding table is int8 where the projections are int4, and is shared with the
    output head where the model ties them. Raises ModelFileError for a missing tensor or an unknown rope scaling.
    """
    return _DecoderBuilder(config, weights, "int8" if precision == "auto" else precision).build()


def rope_frequencies(config: DecoderConfig) -> npt.NDArray[np.float32]:
    """Radians per position of each rotary pair, [head_dim / 2], after the model's rope scaling."""
    exponents = np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    scaling = config.rope_scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        scaled = frequencies
    elif kind == "linear":
        scaled = frequencies / _number(scaling, "factor")
    elif kind == "llama3":
        scaled = _llama3_frequencies(frequencies, scaling)
    elif kind == "factors":
        scaled = frequencies / np.asarray(scaling["factors"], dtype=np.float64)
    else:
        raise ModelFileError(f"rope scaling {kind!r} is not supported; default, linear and llama3 are")
    return scaled.astype(np.float32)


def _llama3_frequencies(frequencies: npt.NDArray[np.float64], scaling: object) -> npt.NDArray[np.float64]:
    """Long waves are slowed by `factor`, short ones kept, those between interpolated (Llama 3.1's model card)."""
    factor = _number(scaling, "factor")
    low, high = _number(scaling, "low_freq_factor"), _number(scaling, "high_freq_factor")
    window = _number(scaling, "original_max_position_embeddings")
    turns = window * frequencies / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return frequencies * (kept + (1 - kept) / factor)


def _number(scaling: object, key: str) -> float:
    value = scaling.get(key) if isinstance(scaling, dict) else None
    if not isinstance(value, int | float):
        raise ModelFileError(f"rope_scaling in the model's configuration has no number {key!r}: found {value!r}")
    return float(value)


@dataclass(frozen=True, slots=True)
class _Context:
    """Nodes that every layer uses."""

    batch: Node
    beam: Node
    cos: Node
    sin: Node
    mask: Node


class _DecoderBuilder:
    """One build: collects the state sinks as it goes from the embedding to the logits."""

    def __init__(self, config: DecoderConfig, weights: WeightSource, precision: StoredPrecision) -> None:
        self._config = config
        self._weights = weights
        self._precision: StoredPrecision = precision
        self._table_precision: StoredPrecision = "int8" if precision == "int4" else precision
        self._names = frozenset(weights.names())
        self._sinks: list[Node] = []

    def build(self) -> ov.Model:
        ids, attention_mask, positions = (
            _parameter(name, [-1, -1], Type.i64) for name in ("input_ids", "attention_mask", "position_ids")
        )
        beam = _parameter("beam_idx", [-1], Type.i32)
        context = self._context(ids, attention_mask, positions, beam)
        table = weight_node(self._weights.tensor("model.embed_tokens.weight"), self._table_precision)
        hidden = op.gather(table, ids, np.int64(0))
        for layer in range(self._config.num_layers):
            hidden = self._layer(f"model.layers.{layer}.", layer, hidden, context)
        hidden = self._norm("model.norm.weight", hidden)
        if not self._config.tie_word_embeddings:
            table = weight_node(self._weights.tensor("lm_head.weight"), self._table_precision)
        logits = op.matmul(hidden, table, False, True)
        logits.output(0).tensor.set_names({"logits"})
        return ov.Model(  # pyright: ignore[reportGeneralTypeIssues]  # OpenVINO's stubs name another class of that name
            [op.result(logits)], self._sinks, [ids, attention_mask, positions, beam], "decoder"
        )

    def _context(self, ids: Node, attention_mask: Node, positions: Node, beam: Node) -> _Context:
        angles = op.multiply(
            op.unsqueeze(op.convert(positions, "f32"), np.array([2])),
            op.constant(rope_frequencies(self._config).reshape(1, 1, -1)),
        )
        angles = op.concat([angles, angles], -1)
        return _Context(
            batch=op.gather(op.shape_of(ids, "i64"), np.array([0]), np.int64(0)),
            beam=beam,
            cos=op.unsqueeze(op.cos(angles), np.array([1])),
            sin=op.unsqueeze(op.sin(angles), np.array([1])),
            mask=_causal_mask(attention_mask, positions),
        )

    def _layer(self, prefix: str, layer: int, hidden: Node, context: _Context) -> Node:
        normed = self._norm(prefix + "input_layernorm.weight", hidden)
        hidden = op.add(hidden, self._attention(prefix + "self_attn.", layer, normed, context))
        normed = self._norm(prefix + "post_attention_layernorm.weight", hidden)
        return op.add(hidden, self._mlp(prefix + "mlp.", normed))

    def _attention(self, prefix: str, layer: int, hidden: Node, context: _Context) -> Node:
        heads, kv_heads, size = self._config.num_heads, self._config.num_kv_heads, self._config.head_dim
        query = self._rotated_heads(prefix, "q", hidden, heads, context)
        key = self._rotated_heads(prefix, "k", hidden, kv_heads, context)
        value = _swap_heads(self._heads(prefix, "v", hidden, kv_heads))
        key = self._cached(f"past_key_values.{layer}.key", key, context)
        value = self._cached(f"past_key_values.{layer}.value", value, context)
        attended = op.scaled_dot_product_attention(query, self._repeated(key), self._repeated(value), context.mask)
        joined = op.reshape(_swap_heads(attended), np.array([0, 0, heads * size]), True)
        return self._linear(prefix + "o_proj", joined, bias=prefix + "o_proj.bias" in self._names)

    def _rotated_heads(self, prefix: str, which: str, hidden: Node, heads: int, context: _Context) -> Node:
        """[b, h, t, d], normed where the model norms its heads, rotated by position."""
        split = self._heads(prefix, which, hidden, heads)
        if self._config.qk_norm:
            split = self._norm(f"{prefix}{which}_norm.weight", split)
        states = _swap_heads(split)
        half = self._config.head_dim // 2
        first, second = op.variadic_split(states, np.int64(3), np.array([half, half])).outputs()
        turned = op.concat([op.multiply(second, np.float32(-1)), first], -1)
        return op.add(op.multiply(states, context.cos), op.multiply(turned, context.sin))

    def _heads(self, prefix: str, which: str, hidden: Node, heads: int) -> Node:
        """[b, t, h, d]"""
        projected = self._linear(f"{prefix}{which}_proj", hidden, bias=self._config.attention_bias)
        return op.reshape(projected, np.array([0, 0, heads, self._config.head_dim]), True)

    def _cached(self, name: str, fresh: Node, context: _Context) -> Node:
        """The state with `fresh` [b, h, t, d] appended: [b, h, s + t, d]."""
        heads, size = self._config.num_kv_heads, self._config.head_dim
        info = VariableInfo()
        info.data_shape, info.data_type, info.variable_id = PartialShape([-1, heads, -1, size]), Type.f32, name
        variable = Variable(info)
        empty = op.concat([context.batch, op.constant(np.array([heads, 0, size], dtype=np.int64))], 0)
        past = op.gather(op.read_value(op.broadcast(np.float32(0), empty), variable), context.beam, np.int64(0))
        whole = op.concat([past, fresh], 2)
        self._sinks.append(op.assign(whole, variable))
        return whole

    def _repeated(self, states: Node) -> Node:
        """Each key-value head once for every query head that reads it: [b, h, s, d]."""
        heads, kv_heads, size = self._config.num_heads, self._config.num_kv_heads, self._config.head_dim
        if heads == kv_heads:
            return states
        shape = op.shape_of(states, "i64")
        batch, length = (op.gather(shape, np.array([axis]), np.int64(0)) for axis in (0, 2))
        target = op.concat([batch, np.array([kv_heads, heads // kv_heads]), length, np.array([size])], 0)
        copies = op.broadcast(op.unsqueeze(states, np.array([2])), target, "BIDIRECTIONAL")
        return op.reshape(copies, np.array([0, heads, -1, size]), True)

    def _mlp(self, prefix: str, hidden: Node) -> Node:
        gate = op.swish(self._linear(prefix + "gate_proj", hidden))
        return self._linear(prefix + "down_proj", op.multiply(gate, self._linear(prefix + "up_proj", hidden)))

    def _linear(self, name: str, hidden: Node, *, bias: bool = False) -> Node:
        weight = weight_node(self._weights.tensor(name + ".weight"), self._precision)
        product = op.matmul(hidden, weight, False, True)
        return op.add(product, _last_axis(self._weights.tensor(name + ".bias"), 3)) if bias else product

    def _norm(self, name: str, hidden: Node) -> Node:
        """RMS norm over the last axis."""
        mean = op.reduce_mean(op.power(hidden, np.float32(2)), np.array([-1]), True)
        root = op.sqrt(op.add(mean, np.float32(self._config.rms_norm_eps)))
        gain = _last_axis(self._weights.tensor(name), len(hidden.get_output_partial_shape(0)))
        return op.multiply(op.multiply(hidden, op.divide(np.float32(1), root)), gain)


def _parameter(name: str, shape: list[int], element_type: Type) -> Node:
    parameter = op.parameter(shape, element_type, name=name)
    parameter.output(0).tensor.set_names({name})
    return parameter


def _causal_mask(attention_mask: Node, positions: Node) -> Node:
    """[b, 1, t, s + t]: 0 where a token may look, far below 0 where it may not."""
    length = op.gather(op.shape_of(attention_mask, "i64"), np.int64(1), np.int64(0))
    columns = op.unsqueeze(op.range(np.int64(0), length, np.int64(1), "i64"), np.array([0, 1, 2]))
    rows = op.unsqueeze(op.unsqueeze(positions, np.array([1])), np.array([3]))
    return op.select(op.less_equal(columns, rows), np.float32(0), _MASKED)


def _swap_heads(states: Node) -> Node:
    """[b, t, h, d] to [b, h, t, d], and back."""
    return op.transpose(states, np.array([0, 2, 1, 3]))


def _last_axis(values: npt.NDArray[np.float32], rank: int) -> Node:
    return op.constant(np.ascontiguousarray(values).reshape((1,) * (rank - 1) + (-1,)))
