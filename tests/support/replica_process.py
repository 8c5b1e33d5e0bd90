"""A replica of its own process: `python -m tests.support.replica_process MODEL DRAIN_TIMEOUT_S`; prints its port."""

import sys
import tempfile
from pathlib import Path

from forebay.core.clock import SystemClock
from forebay.engine.build import build_engine
from forebay.engine.settings import EngineSettings
from forebay.modelfiles.loading import load
from forebay.replica.serve import serve
from forebay.replica.settings import ReplicaSettings
from forebay.web.server import run_in_loop


def _tell(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def main() -> None:
    model = load(sys.argv[1], Path(tempfile.gettempdir()))
    engine = build_engine(model, EngineSettings(kv_cache_gb=0.05, threads=1), SystemClock())
    settings = ReplicaSettings(served_model_name="tiny", port=0, drain_timeout_s=float(sys.argv[2]))
    try:
        run_in_loop(serve(engine, model, settings, _tell))
    finally:
        engine.close()


if __name__ == "__main__":
    main()
