"""The Admin API, called over HTTP."""

import os
import socket
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from forebay.cli.admin.access import GatewayAccess
from forebay.cli.admin.secrecy import require_no_secret

CONNECT_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 60.0
PAGE = 1000
DATE_LAG_S = 2.0
"""A second that is not over, and one until the server reads its clock for the header anew."""
MAX_TOLD_BYTES = 200
"""Of an answer that is not Forebay's."""

Row = dict[str, Any]
"""A resource as the API tells it."""


class AdminFailure(Exception):
    """A call that was refused, or that no gateway answered. `status` is the answer's, None where there was none."""

    def __init__(self, title: str, detail: str, status: int | None = None) -> None:
        super().__init__(detail)
        self.title = title
        self.detail = detail
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    """A good one: its status and its body as it came."""

    status: int
    body: bytes

    def row(self) -> Row:
        return decoded(self.body, Row)


class _Problem(msgspec.Struct):
    class Error(msgspec.Struct):
        param: str | None = None

    title: str
    detail: str
    error: Error = msgspec.field(default_factory=Error)


class _Page(msgspec.Struct):
    data: list[Row]
    has_more: bool = False
    last_id: str | None = None


class AdminApi:
    """Each call is bounded in time and raises AdminFailure; InvalidRequest for a key where an id belongs."""

    def __init__(self, access: GatewayAccess, session: aiohttp.ClientSession) -> None:
        self._access = access
        self._session = session
        self._date: str | None = None

    def gateways_time(self) -> float:
        """Unix seconds by the gateway's clock at its last answer, up to two seconds ahead; ours where it tells none."""
        try:
            return parsedate_to_datetime(self._date or "").timestamp() + DATE_LAG_S
        except ValueError:
            return time.time()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        expected: int | None = None,
    ) -> Answer:
        """`path` begins with a slash and is percent-encoded already; what is None in `query` is left out. `expected` is
        the revision that what is changed must have.
        """
        asked = {name: str(value) for name, value in (query or {}).items() if value is not None}
        require_no_secret((path, *asked.values()))
        headers = {} if expected is None else {"If-Match": f'"{expected}"'}
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        # Not a redirect: it may turn a change into a read, and the key is for the address that was named.
        async with (
            self._reached(),
            self._session.request(
                method, self._access.url + path, params=asked, data=data, headers=headers, allow_redirects=False
            ) as response,
        ):
            content = await response.read()
            self._date = response.headers.get("Date")
            if 200 <= response.status < 300:
                return Answer(response.status, content)
            raise self._refusal(response, content)

    async def get(self, kind: str, id_: str) -> Answer:
        return await self.call("GET", resource_path(kind, id_))

    async def rows(self, kind: str, where: Mapping[str, object] | None = None) -> tuple[list[Row], bytes]:
        """All of a kind, page after page, and the same as the API would tell it in one."""
        rows: list[Row] = []
        after: str | None = None
        while True:
            answer = await self.call("GET", f"/admin/v1/{kind}", query={"limit": PAGE, "after": after, **(where or {})})
            page = decoded(answer.body, _Page)
            rows += page.data
            if not page.has_more and after is None:
                return rows, answer.body
            if not page.has_more or page.last_id is None or page.last_id == after:
                whole = {"object": "list", "data": rows, "has_more": False, "last_id": page.last_id}
                return rows, msgspec.json.encode(whole)
            after = page.last_id

    async def create(self, kind: str, body: Mapping[str, object]) -> Answer:
        return await self.call("POST", f"/admin/v1/{kind}", body=body)

    async def change(self, kind: str, id_: str, patch: Mapping[str, object], *, expected: int | None = None) -> Answer:
        """`patch` is a JSON merge patch."""
        return await self.call("PATCH", resource_path(kind, id_), body=patch, expected=expected)

    async def delete(self, kind: str, id_: str, *, expected: int | None = None) -> None:
        await self.call("DELETE", resource_path(kind, id_), expected=expected)

    @asynccontextmanager
    async def _reached(self) -> AsyncGenerator[None]:
        """Whatever keeps a call from being answered, told with where it went and what to do."""
        where = f"{self._access.url} (from {self._access.found_by})"
        try:
            yield
        except aiohttp.ClientConnectorError as error:
            raise AdminFailure(
                "No gateway",
                f"nothing can be reached at {where}: {_cause(error)}. Start it with `forebay serve`, or name another "
                "with --url or the environment variable FOREBAY_URL.",
            ) from None
        except TimeoutError:
            raise AdminFailure(
                "No answer",
                f"{where} did not answer in time. Whether what was asked for was done is not known: look before you "
                "repeat it.",
            ) from None
        except aiohttp.ClientError as error:
            raise AdminFailure(
                "No answer",
                f"the connection to {where} broke off ({str(error) or type(error).__name__}). Whether what was asked "
                "for was done is not known: look before you repeat it.",
            ) from None

    def _refusal(self, response: aiohttp.ClientResponse, content: bytes) -> AdminFailure:
        status = response.status
        try:
            problem = msgspec.json.decode(content, type=_Problem)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if 300 <= status < 400 and (target := response.headers.get("Location")):
                told = f"it redirects to {target}; name that with --url"
            else:
                told = f"status {status}: {content[:MAX_TOLD_BYTES].decode('utf-8', 'replace').strip() or '(no text)'}"
            return AdminFailure(
                "Not a gateway's answer",
                f"{self._access.url} (from {self._access.found_by}) does not answer as Forebay does: {told}.",
                status,
            )
        param = problem.error.param
        where = f" (param: {param})" if param and param not in problem.detail else ""
        return AdminFailure(problem.title, problem.detail + where, status)


def resource_path(kind: str, id_: str) -> str:
    return f"/admin/v1/{kind}/{quote(id_, safe='')}"


@asynccontextmanager
async def open_api(access: GatewayAccess) -> AsyncGenerator[AdminApi]:
    timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
    headers = {"Authorization": f"Bearer {access.api_key}", "Accept": "application/json"}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
        yield AdminApi(access, session)


def _cause(error: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection, in the system's words."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    if isinstance(error.os_error, socket.gaierror) or not error.os_error.errno:
        return error.os_error.strerror or str(error.os_error)
    return os.strerror(error.os_error.errno)


def decoded(content: bytes, type_: Any) -> Any:
    """Raises AdminFailure for what no gateway says."""
    try:
        return msgspec.json.decode(content, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AdminFailure(
            "Not a gateway's answer", f"what came cannot be understood ({error}); is --url the address of a gateway?"
        ) from None
