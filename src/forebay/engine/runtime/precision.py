"""In which precision this CPU computes."""

from typing import Literal

import openvino as ov

InferencePrecision = Literal["bf16", "f32"]


def native_precision(core: ov.Core) -> InferencePrecision:
    """What the CPU plugin computes in when it is left to itself."""
    return "bf16" if "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES") else "f32"
