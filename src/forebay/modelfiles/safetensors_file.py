"""The safetensors container, read without torch."""

import json
import mmap
from pathlib import Path
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from forebay.core.errors import ModelFileError
from forebay.modelfiles.layout import Shape
from forebay.modelfiles.mapped_file import map_file

_DTYPES: Final[dict[str, type[np.generic]]] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
}


class SafetensorsFile:
    """An open safetensors file. Tensors stay on disk until they are read.

    Raises ModelFileError where the file is missing, cut short or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = map_file(path, ", but the model's index names it: download it too")
        self._start, self._entries = _read_header(self._data, path)

    @property
    def shapes(self) -> dict[str, Shape]:
        return {name: tuple(cast("list[int]", entry["shape"])) for name, entry in self._entries.items()}

    def read(self, name: str) -> npt.NDArray[np.float32]:
        """One tensor as float32. It must be one of `shapes`."""
        entry = self._entries[name]
        kind = cast("str", entry["dtype"])
        if kind not in _DTYPES:
            raise ModelFileError(
                f"{self.path}: tensor {name!r} is stored as {kind}; {', '.join(_DTYPES)} can be read. "
                "Give the model's unquantised checkpoint; it is compressed when it is loaded"
            )
        begin, end = cast("list[int]", entry["data_offsets"])
        dtype = np.dtype(_DTYPES[kind]).newbyteorder("<")
        count = (end - begin) // dtype.itemsize
        raw = np.frombuffer(self._data, dtype=dtype, count=count, offset=self._start + begin)
        values = _widened(raw.view(np.uint16)) if kind == "BF16" else raw.astype(np.float32)
        return values.reshape(self.shapes[name])


def _widened(halves: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """bfloat16 bits are the upper half of float32's."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def _read_header(data: mmap.mmap, path: Path) -> tuple[int, dict[str, dict[str, object]]]:
    """Where the tensors' bytes begin, and each one's dtype, shape and offsets."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or 8 + size > len(data):
        raise ModelFileError(f"{path} is cut short within its header, or is no safetensors file; download it again")
    try:
        header = json.loads(data[8 : 8 + size])
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        needed = 8 + size + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        for name, entry in entries.items():
            _check_entry(path, name, entry)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{path} is not a safetensors file: its header is damaged ({error})") from error
    if needed > len(data):
        raise ModelFileError(f"{path} is cut short: it has {len(data)} bytes of {needed}; download it again")
    return 8 + size, entries


def _check_entry(path: Path, name: str, entry: dict[str, object]) -> None:
    begin, end = cast("list[int]", entry["data_offsets"])
    kind = entry["dtype"]
    elements = 1
    for dim in cast("list[int]", entry["shape"]):
        elements *= dim
    if kind in _DTYPES and end - begin != elements * np.dtype(_DTYPES[cast("str", kind)]).itemsize:
        raise ModelFileError(f"{path} is damaged: tensor {name!r} has {end - begin} bytes for {elements} elements")
