"""An inference server at its worst: whatever it is asked, it says the request's text again, in all the wrong places."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAYS = (
    "refuses",
    "fails",
    "limits",
    "denies",
    "says no JSON",
    "says other JSON",
    "says another type",
    "breaks off",
    "says no HTTP",
    "streams an error",
    "streams no JSON",
    "streams other JSON",
    "streams without an end",
)
"""Each is one way to answer; the request's `seed` is its place in here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the library calls it
        """Tells nobody."""

    def do_GET(self) -> None:
        self._say(200, {"object": "list", "data": [{"id": "echo", "object": "model"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = json.dumps(asked["messages"])
        error = {"error": {"message": f"cannot answer {text}", "param": text, "code": text, "type": text}}
        ways: dict[str, Callable[[], None]] = {
            "refuses": lambda: self._say(400, error),
            "fails": lambda: self._say(500, error),
            "limits": lambda: self._say(429, error, f"Retry-After: {text}"),
            "denies": lambda: self._say(401, error),
            "says no JSON": lambda: self._say(200, text + "{"),
            "says other JSON": lambda: self._say(200, {"id": text, "choices": text, "usage": {"prompt_tokens": text}}),
            "says another type": lambda: self._raw(f"HTTP/1.1 200 {text}", f"Content-Type: text/{text}", text),
            "breaks off": lambda: self._raw(
                "HTTP/1.1 200 OK", "Content-Type: application/json\r\nContent-Length: 99999", text
            ),
            "says no HTTP": lambda: self._raw(text, f"{text}\r\nX-{text}", text),
            "streams an error": lambda: self._stream(json.dumps(error)),
            "streams no JSON": lambda: self._stream(text + "{"),
            "streams other JSON": lambda: self._stream(json.dumps({"choices": text, "usage": text})),
            "streams without an end": lambda: self._stream(
                json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]})
            ),
        }
        ways[WAYS[asked["seed"]]]()

    def _say(self, status: int, answer: object, *headers: str) -> None:
        body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}", *headers)
        self._raw(f"HTTP/1.1 {status} Said", "\r\n".join(lines), body.decode())

    def _stream(self, event: str) -> None:
        self._raw("HTTP/1.1 200 OK", "Content-Type: text/event-stream", f"data: {event}\n\n")

    def _raw(self, line: str, headers: str, body: str) -> None:
        self.wfile.write(f"{line}\r\n{headers}\r\nConnection: close\r\n\r\n{body}".encode())
        self.close_connection = True


@contextmanager
def echoing_server() -> Iterator[str]:
    """Its base URL, of the model `echo`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()
