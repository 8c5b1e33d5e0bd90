"""The client of every replica: ours, vLLM's, or any OpenAI-compatible server's."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self
from urllib.parse import quote

import aiohttp
import msgspec

from forebay.api import sse
from forebay.core.errors import UpstreamFailed
from forebay.fleet.event_relay import EventRelay
from forebay.fleet.replica import Endpoint
from forebay.fleet.settings import FleetSettings
from forebay.fleet.supervisor import ProbeError
from forebay.fleet.upstream_errors import error_of
from forebay.metering.usage import TokenUsage

KNOWN_TYPES = frozenset({"application/json", sse.MEDIA_TYPE, "text/html", "text/plain"})
"""Others are not told: errors are logged, and a server may say anything, its request too, in that header."""
KEEPALIVE_S = 3.0
"""How long an idle connection is kept: shorter than the 5 s after which vLLM's server closes one, as a request must not
meet a connection that is just being closed."""

MAX_ERROR_BYTES = 65536
UNREACHABLE = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""What a request may be sent elsewhere after: not a byte of it had left."""
MAX_LISTING_BYTES = 4 * 2**20
USAGE_WAIT_S = 2.0
"""How long a replica may wait for a request's end before it tells its usage; half the probe timeout at most."""
USAGE_ATTEMPTS = 3
"""How often it is asked, where it does not answer or the request still runs."""
USAGE_RETRY_S = 0.3


class _Listed(msgspec.Struct, frozen=True):
    id: str
    max_model_len: int | None = None


class _Listing(msgspec.Struct, frozen=True):
    data: list[_Listed]


class _BookedUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    ended: bool


class UnreachableError(Exception):
    """The replica could not be reached, and has certainly not seen the request."""


class UpstreamAnswer:
    """A good answer whose head has arrived."""

    def __init__(self, pool: str, response: aiohttp.ClientResponse) -> None:
        self._pool = pool
        self._response = response

    async def whole(self) -> bytes:
        """The whole body. Raises UpstreamFailed where it breaks off."""
        try:
            return await self._response.read()
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise _broken(self._pool, error) from error

    async def events(self) -> AsyncGenerator[bytes]:
        """The stream's events as they come, byte for byte. Raises UpstreamFailed where it breaks off, has a malformed
        event or ends without its end mark.
        """
        relay = EventRelay(self._pool)
        try:
            async for chunk in self._response.content.iter_any():
                if events := relay.feed(chunk):
                    yield events
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise _broken(self._pool, error) from error
        if events := relay.finish():
            yield events
        if not relay.ended:
            raise UpstreamFailed(
                f"A replica of the pool {self._pool} ended its answer too early. Send the request again."
            )


class UpstreamClient:
    """Keeps the connections to all replicas."""

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self._settings.connect_timeout_s, sock_read=self._settings.idle_timeout_s
            ),
            headers={"Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def post(
        self, pool: str, endpoint: Endpoint, path: str, body: bytes, *, stream: bool, headers: Mapping[str, str]
    ) -> AsyncGenerator[UpstreamAnswer]:
        """Send one request with these `headers` beside its own; leaving before the answer's end closes the connection,
        which ends the request there too.

        Raises UnreachableError, or the error of the tree that the replica's answer stands for.
        """
        try:
            response = await self._http.post(
                f"{endpoint.base_url}/{path}",
                data=body,
                headers={"Content-Type": "application/json", **headers, **_authorization(endpoint)},
                allow_redirects=False,
            )
        except UNREACHABLE as error:
            raise UnreachableError(f"cannot be reached ({_reason(error)})") from error
        # Whatever the library makes of an address or a key, it is this pool's failure alone.
        except Exception as error:
            raise _broken(pool, error) from error
        try:
            await _require_success(pool, endpoint, response, stream=stream)
            yield UpstreamAnswer(pool, response)
        finally:
            # Gives the connection back where the whole body was read, else closes it.
            response.close()

    async def probe(self, endpoint: Endpoint) -> None:
        """Raises ProbeError."""
        status, _ = await self._get(endpoint, endpoint.health_url)
        if status in {401, 403}:
            raise ProbeError(f"refused the configured key at {endpoint.health_url} (status {status})")
        if status >= 500 or (status >= 400 and endpoint.takes_priority):
            raise ProbeError(f"status {status} from {endpoint.health_url}")

    async def windows(self, endpoint: Endpoint) -> dict[str, int | None]:
        """The models that the server lists, each with its `max_model_len` where it tells.

        Raises ProbeError where it does not list them.
        """
        url = f"{endpoint.base_url}/models"
        status, body = await self._get(endpoint, url)
        if status != 200:
            raise ProbeError(f"status {status} from {url}")
        try:
            listed = msgspec.json.decode(body, type=_Listing).data
        except (msgspec.DecodeError, RecursionError):
            raise ProbeError(f"{url} does not list models as OpenAI's API does") from None
        return {model.id: model.max_model_len for model in listed}

    async def usage_of(self, endpoint: Endpoint, request_id: str) -> TokenUsage | None:
        """What the request with that id has used by the replica's own book: once it has ended, or so far where it does
        not end within a few seconds. None where the replica keeps no book, does not know the request or cannot be
        reached.
        """
        if not endpoint.tells_usage:
            return None
        wait_s = min(USAGE_WAIT_S, self._settings.probe_timeout_s / 2)
        url = f"{endpoint.base_url}/requests/{quote(request_id)}/usage?wait_s={wait_s:g}"
        told: _BookedUsage | None = None
        for attempt in range(USAGE_ATTEMPTS):
            try:
                status, body = await self._get(endpoint, url)
                told = msgspec.json.decode(body, type=_BookedUsage) if status == 200 else None
            except ProbeError:
                if attempt < USAGE_ATTEMPTS - 1:
                    await asyncio.sleep(USAGE_RETRY_S)
                continue
            except (msgspec.DecodeError, RecursionError):
                return None
            if told is None or told.ended:
                break
        if told is None:
            return None
        return TokenUsage(
            prompt_tokens=told.prompt_tokens, cached_tokens=told.cached_tokens, output_tokens=told.completion_tokens
        )

    async def _get(self, endpoint: Endpoint, url: str) -> tuple[int, bytes]:
        """Status and body, within the probe timeout. Raises ProbeError where there is no answer."""
        limit_s = self._settings.probe_timeout_s
        try:
            async with asyncio.timeout(limit_s), self._http.get(url, headers=_authorization(endpoint)) as answer:
                return answer.status, await answer.content.read(MAX_LISTING_BYTES)
        except TimeoutError:
            raise ProbeError(f"no answer from {url} within {limit_s:g} s") from None
        # Likewise: a probe must not end in anything that its supervisor does not expect.
        except Exception as error:
            raise ProbeError(f"cannot be reached at {url} ({_reason(error)})") from None

    @property
    def _http(self) -> aiohttp.ClientSession:
        assert self._session is not None, "the client is used inside its `async with`"
        return self._session


async def _require_success(pool: str, endpoint: Endpoint, response: aiohttp.ClientResponse, *, stream: bool) -> None:
    if response.status != 200:
        try:
            body = await response.content.read(MAX_ERROR_BYTES)
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            body = b""
        raise error_of(pool, endpoint.model, response.status, response.headers.get("Retry-After"), body)
    expected = sse.MEDIA_TYPE if stream else "application/json"
    if response.content_type != expected:
        given = response.content_type if response.content_type in KNOWN_TYPES else "another type"
        raise UpstreamFailed(f"A replica of the pool {pool} answered with {given} instead of {expected}.")


def _authorization(endpoint: Endpoint) -> dict[str, str]:
    return {} if endpoint.api_key is None else {"Authorization": f"Bearer {endpoint.api_key}"}


def _broken(pool: str, error: Exception) -> UpstreamFailed:
    if isinstance(error, TimeoutError):
        return UpstreamFailed(f"A replica of the pool {pool} went silent. Send the request again.", retry_after_s=1.0)
    return UpstreamFailed(
        f"A replica of the pool {pool} broke off before its answer was complete. Send the request again.",
        retry_after_s=1.0,
    )


def _reason(error: Exception) -> str:
    """Without the address, which aiohttp repeats in full."""
    cause = error.__cause__ or error
    return getattr(cause, "strerror", None) or type(error).__name__
