"""`python -m benchmarks.gateway.upstream PORT`: a model's server that does nothing, as fast as Python can.

It speaks what a gateway asks of an engine: chat completions whole and streamed, the list of models, health. A request
gets `max_tokens` tokens: whole at once; streamed one by one, the first at once and then one each `INTERVAL_S`. The text
of a piece is the moment in which it was written, in nanoseconds of the monotonic clock, which all processes share.
"""

import asyncio
import gc
import itertools
import selectors
import sys
import time
from collections.abc import Iterator

import httptools
import msgspec

MODEL = "noop-model"
INTERVAL_S = 0.02
PROMPT_TOKENS = 200
"""What every usage says; prompts of that length are sent."""
_DEFAULT_TOKENS = 64
_CREATED = 1_750_000_000


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Asked(msgspec.Struct):
    stream: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream_options: _StreamOptions | None = None


_asked = msgspec.json.Decoder(_Asked)


def usage(completion_tokens: int) -> bytes:
    """As vLLM writes it."""
    return (
        b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}'
        % (PROMPT_TOKENS, PROMPT_TOKENS + completion_tokens, completion_tokens)
    )


def chunk(number: int, choices: bytes, told_usage: bytes | None) -> bytes:
    """One event of the answer `number`."""
    ending = b"" if told_usage is None else b',"usage":' + told_usage
    head = b'data: {"id":"chatcmpl-%032x","object":"chat.completion.chunk","created":%d,"model":"%s","choices":[' % (
        number,
        _CREATED,
        MODEL.encode(),
    )
    return head + choices + b"]" + ending + b"}\n\n"


def whole_answer(number: int, tokens: int) -> bytes:
    text = "word " * tokens
    return (
        b'{"id":"chatcmpl-%032x","object":"chat.completion","created":%d,"model":"%s","choices":[{"index":0,"message":'
        b'{"role":"assistant","content":"%s"},"logprobs":null,"finish_reason":"stop"}],"usage":%s}'
        % (number, _CREATED, MODEL.encode(), text.encode(), usage(tokens))
    )


def response(body: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    return head + body


class Stream:
    """One streamed answer on one connection."""

    def __init__(self, connection: "Connection", number: int, tokens: int, options: _StreamOptions) -> None:
        self._connection = connection
        self._number = number
        self._tokens = tokens
        self._usage_at_end = bool(options.include_usage)
        self._usage_always = self._usage_at_end and bool(options.continuous_usage_stats)
        self._sent = 0
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        head = (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        role = b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}'
        self._connection.write(head + _framed(chunk(self._number, role, self._usage())))
        self._step()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _step(self) -> None:
        """Write one piece, and what ends the stream after the last."""
        self._sent += 1
        last = self._sent == self._tokens
        choice = b'{"index":0,"delta":{"content":"%d "},"logprobs":null,"finish_reason":%s}' % (
            time.monotonic_ns(),
            b'"stop"' if last else b"null",
        )
        data = _framed(chunk(self._number, choice, self._usage()))
        if not last:
            self._connection.write(data)
            self._due += INTERVAL_S
            self._timer = self._loop.call_at(self._due, self._step)
            return
        if self._usage_at_end:
            data += _framed(chunk(self._number, b"", usage(self._sent)))
        self._connection.write(data + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    def _usage(self) -> bytes | None:
        return usage(self._sent) if self._usage_always else None


class Connection(asyncio.Protocol):
    """One client's connection, kept alive. `numbers` are the answers' own."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body = b""
        self._stream: Stream | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stream is not None:
            self._stream.cancel()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        path, body = self._path, self._body
        self._path = self._body = b""
        if path == b"/v1/chat/completions":
            self._complete(_asked.decode(body))
        elif path == b"/health":
            self.write(response(b"{}"))
        elif path == b"/v1/models":
            self.write(
                response(
                    b'{"object":"list","data":[{"id":"%s","object":"model","max_model_len":8192}]}' % MODEL.encode()
                )
            )
        else:
            self.write(response(b'{"error":{"message":"not here","type":"not_found","code":404}}', b"404 Not Found"))

    def _complete(self, asked: _Asked) -> None:
        tokens = asked.max_completion_tokens or asked.max_tokens or _DEFAULT_TOKENS
        if asked.stream:
            self._stream = Stream(self, next(self._numbers), tokens, asked.stream_options or _StreamOptions())
            self._stream.begin()
        else:
            self.write(response(whole_answer(next(self._numbers), tokens)))


def _framed(data: bytes) -> bytes:
    """One chunk of HTTP's chunked coding."""
    return b"%x\r\n%s\r\n" % (len(data), data)


async def serve(port: int) -> None:
    numbers = itertools.count()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(numbers), "127.0.0.1", port, backlog=1024)
    async with server:
        await server.serve_forever()


def precise_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose timers are true to the microsecond: epoll's and uvloop's only are to the millisecond."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def main() -> None:
    # Nothing here is cyclic but a connection and its parser, and a pause would look like one of the gateway's.
    gc.disable()
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
