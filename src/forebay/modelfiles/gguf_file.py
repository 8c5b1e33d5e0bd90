"""The GGUF container: metadata and quantised tensors of one file (format versions 2 and 3, little endian)."""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from forebay.core.errors import ModelFileError
from forebay.modelfiles.mapped_file import map_file

_MAGIC = b"GGUF"
_DEFAULT_ALIGNMENT = 32
_BLOCKS_AT_ONCE = 8192
_SCALARS: Final[Mapping[int, str]] = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_STRING = 8
_ARRAY = 9


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where one tensor lies: `shape` in NumPy's order, slowest axis first; `start` in bytes from the file's begin."""

    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    start: int
    num_bytes: int


class GgufFile:
    """An open GGUF file. Tensors stay on disk until they are read.

    Raises ModelFileError where the file is missing, is no GGUF, is cut short or stores its tensors in an unknown way.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = map_file(path)
        cursor = _Cursor(self._data, path)
        self.metadata, self.tensors = _read_header(cursor)

    def read(self, name: str) -> npt.NDArray[np.float32]:
        """One tensor, dequantised."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise ModelFileError(f"{self.path} has no tensor {name!r}")
        raw = np.frombuffer(self._data, dtype=np.uint8, count=tensor.num_bytes, offset=tensor.start)
        if tensor.kind is GGMLQuantizationType.F32:
            return raw.view(np.float32).reshape(tensor.shape).copy()
        if tensor.kind is GGMLQuantizationType.F16:
            return raw.view(np.float16).reshape(tensor.shape).astype(np.float32)
        try:
            return _dequantised(raw, tensor)
        except NotImplementedError as error:
            raise ModelFileError(
                f"{self.path}: tensor {name!r} is stored as {tensor.kind.name}, which cannot be read; "
                "use a file in F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K or Q6_K"
            ) from error


def _dequantised(raw: npt.NDArray[np.uint8], tensor: GgufTensor) -> npt.NDArray[np.float32]:
    # Blocks do not depend on each other. The library would take 16 short rows at a time; pieces as large as fit a
    # core's cache are twice as fast.
    elements, block_bytes = GGML_QUANT_SIZES[tensor.kind]
    blocks = raw.reshape(-1, block_bytes)
    values = np.empty((len(blocks), elements), dtype=np.float32)
    for begin in range(0, len(blocks), _BLOCKS_AT_ONCE):
        piece = slice(begin, begin + _BLOCKS_AT_ONCE)
        values[piece] = dequantize(blocks[piece].reshape(1, -1), tensor.kind).reshape(-1, elements)
    return values.reshape(tensor.shape)


class _Cursor:
    """Reads forward through the header and knows where the file ends."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data = data
        self.path = path
        self.at = 0
        self.end = len(data)

    def take(self, count: int) -> bytes:
        if count > self.end - self.at:
            raise self.cut_short(self.at + count)
        self.at += count
        return self._data[self.at - count : self.at]

    def scalar(self, code: str) -> int | float | bool:
        packed = struct.Struct("<" + code)
        return packed.unpack(self.take(packed.size))[0]

    def count(self, code: str = "Q") -> int:
        return cast("int", self.scalar(code))

    def string(self) -> str:
        return self.take(self.count()).decode("utf-8", errors="replace")

    def value(self, kind: int) -> object:
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise ModelFileError(f"{self.path}: unknown metadata type {kind} at byte {self.at}: the file is damaged")
        item, length = self.count("I"), self.count()
        if item in _SCALARS:
            packed = np.dtype("<" + _SCALARS[item])
            return np.frombuffer(self.take(length * packed.itemsize), dtype=packed).tolist()
        return [self.value(item) for _ in range(length)]

    def cut_short(self, needed: int) -> ModelFileError:
        return ModelFileError(
            f"{self.path} is cut short: it has {self.end} bytes and needs at least {needed}; download it again"
        )


def _read_header(cursor: _Cursor) -> tuple[dict[str, object], dict[str, GgufTensor]]:
    if cursor.end < 24 or cursor.take(4) != _MAGIC:
        raise ModelFileError(f"{cursor.path} is not a GGUF file: it does not begin with `GGUF`")
    version = cursor.count("I")
    if version not in (2, 3):
        hint = "it is big endian" if version & 0xFFFF == 0 else "versions 2 and 3 can be read"
        raise ModelFileError(f"{cursor.path}: GGUF version {version} cannot be read: {hint}; convert the model again")
    tensor_count, value_count = cursor.count(), cursor.count()
    metadata: dict[str, object] = {}
    for _ in range(value_count):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.count("I"))
    entries = [_read_entry(cursor) for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0:
        raise ModelFileError(f"{cursor.path}: general.alignment must be a positive integer, found {alignment!r}")
    base = -(-cursor.at // alignment) * alignment
    return metadata, {name: _placed(cursor, base, shape, kind, offset) for name, shape, kind, offset in entries}


def _read_entry(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape, kind and offset of one tensor."""
    name = cursor.string()
    dims = [cursor.count() for _ in range(cursor.count("I"))]
    return name, tuple(reversed(dims)), cursor.count("I"), cursor.count()


def _placed(cursor: _Cursor, base: int, shape: tuple[int, ...], kind: int, offset: int) -> GgufTensor:
    try:
        known = GGMLQuantizationType(kind)
    except ValueError as error:
        raise ModelFileError(
            f"{cursor.path}: a tensor is stored as type {kind}, which is not known; use a file in F16, Q8_0 or Q4_K"
        ) from error
    block, block_bytes = GGML_QUANT_SIZES[known]
    elements = 1
    for dim in shape:
        elements *= dim
    if elements % block:
        raise ModelFileError(f"{cursor.path} is damaged: {elements} elements of {known.name} fill no whole blocks")
    num_bytes = elements // block * block_bytes
    if base + offset + num_bytes > cursor.end:
        raise cursor.cut_short(base + offset + num_bytes)
    return GgufTensor(shape, known, base + offset, num_bytes)
