"""What this machine's runtime can do, found by trying it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import openvino as ov

from forebay.core.errors import UnsupportedMachine
from forebay.engine.runtime.decoder_graph import build_decoder
from forebay.engine.runtime.paged_graph import to_paged
from forebay.engine.runtime.precision import InferencePrecision, native_precision
from forebay.modelfiles.layout import tensor_shapes
from forebay.modelfiles.model import DecoderConfig

_PROBE = DecoderConfig(
    architecture="llama",
    num_layers=1,
    hidden_size=64,
    intermediate_size=64,
    num_heads=2,
    num_kv_heads=1,
    head_dim=32,
    vocab_size=32,
    context_window=32,
    rope_theta=10000.0,
    rms_norm_eps=1e-5,
    tie_word_embeddings=True,
    attention_bias=False,
    qk_norm=False,
)


@dataclass(frozen=True, slots=True)
class MachineReport:
    """`inference_precision` is what `auto` computes in; `reason` says why there is no paged attention, or is empty."""

    cpu: str
    usable_cores: int
    inference_precision: InferencePrecision
    paged_attention: bool
    reason: str


def check_machine() -> MachineReport:
    """Compile and run one step of a tiny paged decoder on the CPU."""
    core = ov.Core()
    try:
        cpu = str(core.get_property("CPU", "FULL_DEVICE_NAME"))
        precision = native_precision(core)
    # A build of the runtime without its CPU plugin has no such device.
    except RuntimeError as error:
        return MachineReport("unknown", _usable_cores(), "f32", False, _first_line(error))
    reason = _why_not_paged(core)
    return MachineReport(cpu, _usable_cores(), precision, not reason, reason)


def require_paged_attention(report: MachineReport | None = None) -> None:
    """Raise UnsupportedMachine, with the way out, where the embedded engine cannot run here (checked if not given)."""
    report = report or check_machine()
    if not report.paged_attention:
        raise UnsupportedMachine(
            f"the embedded engine needs paged attention, which the runtime does not have on this CPU ({report.cpu}): "
            f"{report.reason}. x86-64 with AVX2, and ARM with SVE, have it. Serve this pool from an engine URL: set "
            "`url` to an OpenAI-compatible engine, such as vLLM or `forebay engine serve` on another machine"
        )


class _ProbeWeights:
    """The same small number everywhere."""

    def __init__(self, config: DecoderConfig) -> None:
        self._shapes = tensor_shapes(config)

    def names(self) -> Iterator[str]:
        return iter(self._shapes)

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        return np.full(self._shapes[name], 0.01, dtype=np.float32)


def _why_not_paged(core: ov.Core) -> str:
    """Empty where a step ran and gave finite logits."""
    try:
        model = to_paged(build_decoder(_PROBE, _ProbeWeights(_PROBE), "f32"), 1)
        compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1, "ENABLE_CPU_PINNING": False})
        logits = _one_step(compiled)
    except RuntimeError as error:
        return _first_line(error)
    return "" if np.isfinite(logits).all() else "its result is not a number"


def _one_step(compiled: ov.CompiledModel) -> npt.NDArray[np.float32]:
    """The logits of one token written to one block."""
    request = compiled.create_infer_request()
    for port in compiled.inputs:
        name = port.get_any_name()
        if name.startswith(("key_cache.", "value_cache.")):
            block = [dim.get_length() for dim in list(port.get_partial_shape())[1:]]
            request.set_tensor(name, ov.Tensor(port.get_element_type(), ov.Shape([1, *block])))
    step = {
        "input_ids": np.array([1], dtype=np.int64),
        "position_ids": np.array([0], dtype=np.int64),
        "past_lens": np.array([0], dtype=np.int32),
        "subsequence_begins": np.array([0, 1], dtype=np.int32),
        "block_indices": np.array([0], dtype=np.int32),
        "block_indices_begins": np.array([0, 1], dtype=np.int32),
        "max_context_len": np.array(1, dtype=np.int32),
        "sampled_positions": np.array([0], dtype=np.int32),
        "inverse_temperature": np.array([1], dtype=np.float32),
    }
    for name, values in step.items():
        request.set_tensor(name, ov.Tensor(values))
    request.infer()
    return request.get_tensor("logits").data.copy()


def _usable_cores() -> int:
    """Cores that this process may run on, where the system says so."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _first_line(error: RuntimeError) -> str:
    """The runtime's own words, without the trace of source lines that precedes them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith(("Exception from", "Check "))), "it gives no reason")
