"""The KV cache's memory: one tensor for each layer's keys and values, first axis = block."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import openvino as ov

from forebay.engine.runner import HostBlocks


@dataclass(frozen=True, slots=True)
class KvLayout:
    """What the compiled model wants its KV tensors to be: name → element type and shape of one block."""

    element_types: dict[str, ov.Type]
    block_shapes: dict[str, tuple[int, ...]]
    block_size: int

    @classmethod
    def of(cls, compiled: ov.CompiledModel) -> "KvLayout":
        """Read from the compiled model: the plugin chooses the block size and, for u8, the rows that hold scales."""
        types: dict[str, ov.Type] = {}
        shapes: dict[str, tuple[int, ...]] = {}
        for port in compiled.inputs:
            name = port.get_any_name()
            if name.startswith(("key_cache.", "value_cache.")):
                types[name] = port.get_element_type()
                shapes[name] = tuple(d.get_length() for d in list(port.get_partial_shape())[1:])
        # Values [heads, block_size, size of a head and, for u8, its scales]; only keys have rows of scales.
        block_size = shapes["value_cache.0"][1]
        return cls(types, shapes, block_size)

    @property
    def bytes_per_block(self) -> int:
        return sum(int(np.prod(shape)) * self.element_types[name].size for name, shape in self.block_shapes.items())


class KvTensors:
    """`num_blocks` blocks of zeros."""

    def __init__(self, layout: KvLayout, num_blocks: int) -> None:
        self.tensors = {
            name: ov.Tensor(layout.element_types[name], ov.Shape([num_blocks, *shape]))
            for name, shape in layout.block_shapes.items()
        }
        self._views: list[npt.NDArray[np.generic]] = [tensor.data for tensor in self.tensors.values()]
        for view in self._views:
            # Touched now, so that a machine short of memory fails at start and not under load.
            view[:] = 0

    def copy_out(self, blocks: Sequence[int]) -> HostBlocks:
        index = np.asarray(blocks, dtype=np.intp)
        return [view[index] for view in self._views]

    def copy_in(self, saved: HostBlocks, rows: Sequence[int], blocks: Sequence[int]) -> None:
        source, target = np.asarray(rows, dtype=np.intp), np.asarray(blocks, dtype=np.intp)
        for view, kept in zip(self._views, saved, strict=True):
            view[target] = kept[source]
