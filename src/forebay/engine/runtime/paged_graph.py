"""A stateful decoder graph made paged, with the sampling's first, wide part inside it.

Works alike on our own graphs and on OpenVINO IR as GenAI and optimum export it.
"""

import numpy as np
import openvino as ov
import openvino.opset15 as op
from openvino import Node, Type
from openvino._offline_transformations import paged_attention_transformation

from forebay.core.errors import ModelFileError

_BETWEEN_HEAD_AND_RESULT = frozenset({"Convert", "Add", "Multiply", "Divide", "Tanh"})
"""What may stand between the head's product and the logits: precision, bias, scale, soft cap."""


def to_paged(model: ov.Model, num_top: int) -> ov.Model:
    """Turn a stateful decoder into a step over block tables; `model` itself is changed and returned.

    Inputs, for n tokens of a step, r of which are sampled (r may be 0):
    those of the paged-attention transformation (`input_ids`, `position_ids`, `past_lens`, `subsequence_begins`,
    `block_indices`, `block_indices_begins`, `max_context_len`, `key_cache.N`, `value_cache.N`);
    `sampled_positions` i32 [r], indices into the step's n tokens; `inverse_temperature` f32 [r].

    Outputs: `logits` f32 [r, vocab], raw; of logits * inverse_temperature: `top_values` f32 [r, K] and `top_ids` i32
    [r, K] in falling order, K = min(num_top, vocab), and `log_normaliser` f32 [r].

    Raises ModelFileError where the graph is not a stateful decoder of scaled-dot-product attention.
    """
    _require_stateful_form(model)
    try:
        paged_attention_transformation(model)
    except RuntimeError as error:
        raise _not_convertible(str(error)) from error
    head = _logits_product(model)
    sampled = _parameter("sampled_positions", Type.i32)
    inverse_temperature = _parameter("inverse_temperature", Type.f32)
    _gather_before(head, sampled)
    logits = _flat_logits(model)
    outputs = _sampling_outputs(logits, inverse_temperature, num_top)
    model.add_parameters([sampled, inverse_temperature])
    for result in model.get_results():
        model.remove_result(result)
    model.add_results([_named_result(name, output) for name, output in outputs.items()])
    model.validate_nodes_and_infer_types()
    return model


def _require_stateful_form(model: ov.Model) -> None:
    kinds = {node.get_type_name() for node in model.get_ops()}
    missing = [kind for kind in ("ReadValue", "Assign", "ScaledDotProductAttention") if kind not in kinds]
    if missing:
        raise _not_convertible(f"it has no {' and no '.join(missing)} operation")


def _not_convertible(why: str) -> ModelFileError:
    return ModelFileError(
        f"the graph cannot be given paged attention: {why}. It must be a stateful decoder with scaled-dot-product "
        "attention, as `optimum-cli export openvino --task text-generation-with-past` writes it; export it again so, "
        "or give the GGUF file or the Hugging Face folder instead"
    )


def _logits_product(model: ov.Model) -> Node:
    """The matrix product that makes the logits, found by walking up from the result."""
    last = _logits_output(model).get_node()
    product = _product_above(last)
    if product is None:
        raise _not_convertible(f"its logits come from a {last.get_type_name()} operation, not from a matrix product")
    return product


def _product_above(node: Node) -> Node | None:
    if node.get_type_name() == "MatMul":
        return node
    if node.get_type_name() not in _BETWEEN_HEAD_AND_RESULT:
        return None
    above = (_product_above(source.get_node()) for source in node.input_values())
    return next((found for found in above if found is not None), None)


def _logits_output(model: ov.Model) -> ov.Output:
    """What the logits result is fed by."""
    results = model.get_results()
    for result in results:
        if "logits" in result.input_value(0).get_names() or "logits" in result.output(0).get_names():
            return result.input_value(0)
    if len(results) != 1:
        raise _not_convertible(f"none of its {len(results)} outputs is named `logits`")
    return results[0].input_value(0)


def _gather_before(head: Node, sampled: Node) -> None:
    """Let the head see the sampled tokens only: its input becomes [r, 1, hidden] instead of [n, 1, hidden]."""
    hidden = head.input_value(0)
    head.input(0).replace_source_output(op.gather(hidden, sampled, np.int64(0)).output(0))


def _flat_logits(model: ov.Model) -> Node:
    """[r, 1, vocab] as float32 [r, vocab]."""
    output = _logits_output(model)
    vocab = output.get_partial_shape()[-1]
    if vocab.is_dynamic:
        raise _not_convertible("the size of its vocabulary is not fixed")
    # -1 would be undefined for no rows; 0 copies the row count as it is.
    flat = op.reshape(output, np.array([0, vocab.get_length()]), True)
    return op.convert(flat, "f32") if output.get_element_type() != Type.f32 else flat


def _sampling_outputs(logits: Node, inverse_temperature: Node, num_top: int) -> dict[str, ov.Output]:
    vocab = logits.get_output_partial_shape(0)[-1].get_length()
    scaled = op.multiply(logits, op.unsqueeze(inverse_temperature, np.array([1])))
    top = op.topk(scaled, np.int32(min(num_top, vocab)), -1, "max", "value", "i32")
    # The largest is subtracted first, for float32's range.
    largest = op.reduce_max(scaled, np.array([1]), True)
    total = op.reduce_sum(op.exp(op.subtract(scaled, largest)), np.array([1]), False)
    log_normaliser = op.add(op.log(total), op.squeeze(largest, np.array([1])))
    return {
        "logits": logits.output(0),
        "top_values": top.output(0),
        "top_ids": top.output(1),
        "log_normaliser": log_normaliser.output(0),
    }


def _parameter(name: str, element_type: Type) -> Node:
    parameter = op.parameter([-1], element_type, name=name)
    parameter.output(0).tensor.set_names({name})
    return parameter


def _named_result(name: str, output: ov.Output) -> Node:
    output.tensor.set_names({name})
    return op.result(output)
