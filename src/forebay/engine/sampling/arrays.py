"""Kinds of arrays, and what NumPy has no word for."""

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]
Mask = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]

_LARGEST_EXPONENT = 60.0


def places_in(ids: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """Where each of `wanted` stands in the rising `ids`, and whether it does; the place means nothing where not."""
    if not ids.size:
        return np.zeros(wanted.shape, dtype=np.int64), np.zeros(wanted.shape, dtype=np.bool_)
    places = np.minimum(np.searchsorted(ids, wanted), ids.size - 1)
    return places, ids[places] == wanted


def bounded_exp(exponents: Floats) -> Floats:
    """exp, but at most e ** 60: beside that, smaller terms of a sum are lost anyway, and it cannot overflow."""
    return np.exp(np.minimum(exponents, _LARGEST_EXPONENT))


def quiet_log(weights: Floats) -> Floats:
    """log, and -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(weights)
