"""From a model's files to a runner on the embedded runtime."""

from pathlib import Path

import openvino as ov

from forebay.core.errors import ModelFileError
from forebay.engine.runtime.decoder_graph import build_decoder
from forebay.engine.runtime.openvino_runner import OpenVinoRunner
from forebay.engine.runtime.paged_graph import to_paged
from forebay.engine.settings import EngineSettings
from forebay.modelfiles.model import ModelFiles

_NUM_TOP = 64
"""Candidates that the graph sorts for sampling; rows that need more are drawn from whole."""


def load_runner(model: ModelFiles, settings: EngineSettings) -> OpenVinoRunner:
    """Read the weights and compile. Raises ModelFileError."""
    return OpenVinoRunner(
        to_paged(_stateful_graph(model, settings), _NUM_TOP),
        kv_precision=settings.kv_precision,
        kv_cache_bytes=int(settings.kv_cache_gb * 1024**3),
        threads=settings.threads,
    )


def _stateful_graph(model: ModelFiles, settings: EngineSettings) -> ov.Model:
    if model.graph is not None:
        return _read_graph(model.graph)
    if model.config is None or model.weights is None:
        raise ModelFileError(
            f"{model.path} holds neither a graph nor weights; "
            "give a GGUF file, an OpenVINO IR folder or a Hugging Face folder"
        )
    return build_decoder(model.config, model.weights, settings.weight_precision)


def _read_graph(path: Path) -> ov.Model:
    try:
        return ov.Core().read_model(path)
    except RuntimeError as error:
        raise ModelFileError(
            f"{path} cannot be read as an OpenVINO IR: {str(error).strip().splitlines()[-1]}. Export or copy it again"
        ) from error
