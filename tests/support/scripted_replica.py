"""A replica whose model says what a test gives it to say, and OpenAI's client for it."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from openai import OpenAI

from forebay.core.clock import SystemClock
from forebay.engine.build import build_engine
from forebay.engine.settings import EngineSettings
from forebay.modelfiles.loading import load
from forebay.replica.app import create_app
from forebay.replica.settings import ReplicaSettings
from tests.support.running_app import running
from tests.support.scripted_model import write_scripted_model

MODEL = "scripted"


@contextmanager
def scripted_client(
    pieces: Sequence[str], chat_template: str, special_tokens: Sequence[str] = ("<|im_start|>",)
) -> Iterator[OpenAI]:
    """The real engine behind a real server, until the block ends. At temperature 0 each piece is one token."""
    with tempfile.TemporaryDirectory() as folder:
        written = write_scripted_model(
            Path(folder) / MODEL, pieces, chat_template=chat_template, special_tokens=special_tokens
        )
        model = load(str(written), Path(folder))
        engine = build_engine(model, EngineSettings(kv_cache_gb=0.02, max_num_seqs=4, threads=1), SystemClock())
        try:
            with (
                running(create_app(engine, model, ReplicaSettings(served_model_name=MODEL))) as app,
                OpenAI(base_url=f"{app.url}/v1", api_key="unused", max_retries=0, timeout=60) as client,
            ):
                yield client
        finally:
            engine.close()
