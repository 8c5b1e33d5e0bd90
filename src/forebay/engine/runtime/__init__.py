"""The tensor runtime behind the engine's `ModelRunner`.

Importing OpenVINO reports its use over the network through the package `openvino_telemetry`. A server that was asked to
run models must not call out: where that package cannot be imported, OpenVINO goes on without it.
"""

import sys

sys.modules["openvino_telemetry"] = None  # pyright: ignore[reportArgumentType] - the documented way to forbid an import
