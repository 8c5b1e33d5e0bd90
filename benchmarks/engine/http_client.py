"""A streaming client of OpenAI's /v1/completions that only measures."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from benchmarks.engine.processes import PeerFailedError
from benchmarks.engine.streams import Generation, StreamRecord

_READ_TIMEOUT_S = 300.0


class _Choice(msgspec.Struct):
    text: str = ""
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _PromptDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None


class HttpEndpoint:
    """An OpenAI-compatible server. `extra` is added to every request's body: a peer's way to its best mode."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, model: str, extra: Mapping[str, object], *, priorities: bool
    ) -> None:
        self.root = url
        self.model = model
        self._session = session
        self._url = f"{url}/v1/completions"
        self._base: dict[str, object] = {
            "model": model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            "ignore_eos": True,
            **extra,
        }
        self._priorities = priorities
        self._decoder = msgspec.json.Decoder(_Chunk)

    async def generate(self, generation: Generation, record: StreamRecord) -> None:
        body = {**self._base, "prompt": generation.prompt, "max_tokens": generation.output_tokens}
        if self._priorities:
            body["priority"] = generation.priority
        headers = {"content-type": "application/json"}
        async with self._session.post(self._url, data=msgspec.json.encode(body), headers=headers) as response:
            if response.status != 200:
                raise PeerFailedError(f"{self._url} answered {response.status}: {(await response.text())[:500]}")
            async for line in response.content:
                if line.startswith(b"data: {"):
                    self._note(self._decoder.decode(line[6:]), record)
        _check_counts(generation, record)

    def _note(self, chunk: _Chunk, record: StreamRecord) -> None:
        # A piece that only ends the stream is no token, unless it is all that came.
        if any(choice.text or (choice.finish_reason and not record.chunk_times) for choice in chunk.choices):
            record.chunk_times.append(time.monotonic())
        if chunk.usage is not None:
            record.prompt_tokens = chunk.usage.prompt_tokens
            record.output_tokens = chunk.usage.completion_tokens
            details = chunk.usage.prompt_tokens_details
            record.cached_tokens = details.cached_tokens if details else None


def _check_counts(generation: Generation, record: StreamRecord) -> None:
    if record.output_tokens != generation.output_tokens:
        raise PeerFailedError(
            f"asked for {generation.output_tokens} tokens, the usage says {record.output_tokens}: that is no fair race"
        )
    if record.prompt_tokens != len(generation.prompt):
        raise PeerFailedError(f"sent {len(generation.prompt)} prompt tokens, the usage says {record.prompt_tokens}")


@asynccontextmanager
async def http_endpoint(
    url: str, model: str, extra: Mapping[str, object] | None = None, *, priorities: bool = False
) -> AsyncGenerator[HttpEndpoint, None]:
    """A client of the server at `url`; `priorities` says that it knows vLLM's `priority`."""
    timeout = aiohttp.ClientTimeout(total=None, connect=30, sock_read=_READ_TIMEOUT_S)
    # A connection for each request: servers that close idle ones would fail requests at random.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield HttpEndpoint(session, url, model, extra or {}, priorities=priorities)
