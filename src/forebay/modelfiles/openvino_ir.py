"""A model in an OpenVINO IR folder, as optimum and GenAI's tools export it."""

import re
from pathlib import Path

from forebay.core.errors import ModelFileError
from forebay.modelfiles.architectures import slug
from forebay.modelfiles.fields import Fields
from forebay.modelfiles.folder import chat_template, context_window, end_tokens
from forebay.modelfiles.model import ModelFiles
from forebay.modelfiles.tokenizer import ModelTokenizer

GRAPH = "openvino_model.xml"

_CONSTANT = re.compile(rb'<data [^>]*?offset="(\d+)"[^>]*? size="(\d+)"')


def load_openvino_ir(folder: Path) -> ModelFiles:
    """Read everything but the graph, which the engine loads itself.

    Raises ModelFileError, naming the file, for what is missing or cut short.
    """
    graph, weights = folder / GRAPH, folder / "openvino_model.bin"
    _check_weights(graph, weights)
    fields = Fields.from_json(folder / "config.json")
    tokenizer = ModelTokenizer.from_json(folder / "tokenizer.json")
    return ModelFiles(
        name=slug(folder.resolve().name),
        path=folder,
        context_window=context_window(fields),
        tokenizer=tokenizer,
        chat_template=chat_template(folder),
        eos_token_ids=end_tokens(folder, fields, tokenizer),
        graph=graph,
    )


def _check_weights(graph: Path, weights: Path) -> None:
    if not graph.is_file():
        raise ModelFileError(f"{graph.parent} has no {graph.name}")
    if not weights.is_file():
        raise ModelFileError(f"{graph.parent} has {graph.name} but no {weights.name}: download the weights too")
    needed = max((int(offset) + int(size) for offset, size in _CONSTANT.findall(graph.read_bytes())), default=0)
    found = weights.stat().st_size
    if found < needed:
        raise ModelFileError(f"{weights} is cut short: it has {found} bytes of {needed}; download it again")
