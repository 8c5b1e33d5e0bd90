"""Weights of a projection as the CPU plugin keeps them: compressed, and decompressed inside the matrix product.

The node chain that each function ends in (Convert → Subtract → Multiply → Reshape → Convert) is the one that the plugin
folds into its compressed FullyConnected and Gather; any other order makes it expand the weights to float32 at load.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import openvino as ov
import openvino.opset15 as op
from openvino import Node, Type

StoredPrecision = Literal["f32", "f16", "int8", "int4"]

INT4_GROUP = 64
"""Consecutive input elements that share one int4 scale."""


@dataclass(frozen=True, slots=True)
class Int8Rows:
    """A matrix [out, in] as `(values - zero_points) * scales`: `values` uint8 [out, in], the others [out, 1]."""

    values: npt.NDArray[np.uint8]
    zero_points: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Int4Groups:
    """A matrix [out, in] as `values * scales`: `values` in -8..7, [out, in / 64, 64]; `scales` [out, in / 64, 1]."""

    values: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float16]


def quantise_int8(weight: npt.NDArray[np.float32]) -> Int8Rows:
    """Asymmetric, one scale for each output channel (row)."""
    low = np.minimum(weight.min(axis=1, keepdims=True), 0)
    high = np.maximum(weight.max(axis=1, keepdims=True), 0)
    scales = _as_half((high - low) / 255)
    divisor = scales.astype(np.float32)
    zero_points = np.clip(np.rint(-low / divisor), 0, 255)
    # In place: a table of 10^8 weights would otherwise be held four times over.
    values = weight / divisor
    np.rint(values, out=values)
    values += zero_points
    np.clip(values, 0, 255, out=values)
    return Int8Rows(values.astype(np.uint8), zero_points.astype(np.uint8), scales)


def quantise_int4(weight: npt.NDArray[np.float32]) -> Int4Groups:
    """Symmetric, one scale for each group of 64 inputs; the largest magnitude of a group becomes -8.

    The row length must be a multiple of 64.
    """
    groups = weight.reshape(weight.shape[0], -1, INT4_GROUP)
    largest = np.take_along_axis(groups, np.abs(groups).argmax(axis=-1, keepdims=True), axis=-1)
    scales = _as_half(largest / -8)
    values = np.clip(np.rint(groups / scales.astype(np.float32)), -8, 7)
    return Int4Groups(values.astype(np.int8), scales)


def weight_node(weight: npt.NDArray[np.float32], precision: StoredPrecision) -> Node:
    """A float32 node of shape [out, in] whose constant is stored at `precision`.

    int4 becomes int8 where the row length is no multiple of 64.
    """
    if precision == "f32":
        return op.constant(np.ascontiguousarray(weight))
    if precision == "f16":
        return op.convert(op.constant(weight.astype(np.float16)), "f32")
    if precision == "int4" and weight.shape[1] % INT4_GROUP == 0:
        return _int4_node(quantise_int4(weight), weight.shape)
    return _int8_node(quantise_int8(weight))


def _int8_node(rows: Int8Rows) -> Node:
    values = op.convert(op.constant(rows.values), "f16")
    zero_points = op.convert(op.constant(rows.zero_points), "f16")
    scaled = op.multiply(op.subtract(values, zero_points), op.constant(rows.scales))
    return op.convert(scaled, "f32")


def _int4_node(groups: Int4Groups, shape: tuple[int, ...]) -> Node:
    flat = groups.values.reshape(-1)
    packed = ((flat[0::2] & 0x0F) | ((flat[1::2] & 0x0F) << 4)).astype(np.uint8)
    # A tensor with memory of its own: one made over the NumPy array would not keep that alive.
    tensor = ov.Tensor(Type.i4, ov.Shape(list(groups.values.shape)))
    tensor.data[:] = packed.view(np.int8)
    scaled = op.multiply(op.convert(op.constant(tensor), "f16"), op.constant(groups.scales))
    return op.convert(op.reshape(scaled, np.array(shape, dtype=np.int64), False), "f32")


def _as_half(scales: npt.NDArray[np.floating]) -> npt.NDArray[np.float16]:
    """float16, never 0: values are then rounded by the scale that the graph will multiply by."""
    half = scales.astype(np.float16)
    half[half == 0] = 1
    return half
