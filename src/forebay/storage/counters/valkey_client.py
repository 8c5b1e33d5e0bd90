"""The connections to Valkey. The only module that needs the extra `valkey`."""

import asyncio

from valkey.asyncio import BlockingConnectionPool, Valkey
from valkey.asyncio.retry import Retry
from valkey.backoff import NoBackoff
from valkey.exceptions import NoScriptError, ValkeyError

from forebay.core.errors import ConfigurationError, StoreUnavailable
from forebay.storage.counters.scripts import Script

SETTING = "storage.counters"
MAX_CONNECTIONS = 32
RETRY_AFTER_S = 1.0


class ValkeyClient:
    """Runs scripts. It connects at its first call and again after each loss. Raises ConfigurationError where `url` is
    no address.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        try:
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=MAX_CONNECTIONS,
                timeout=timeout_s,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                # That the server closed a connection is only found out when it is used. Each script can be repeated.
                retry=Retry(NoBackoff(), 1),
            )
        except ValueError as error:
            raise ConfigurationError(
                f"The setting {SETTING} is no address of a Valkey server. Give one like valkey://HOST:6379/0, "
                "valkeys://USER:PASSWORD@HOST:6379/0 (TLS) or unix:///PATH/OF/SOCKET."
            ) from error
        self._client = Valkey.from_pool(pool)

    async def run(self, script: Script, key: str, *arguments: int | bytes) -> object:
        """The answer of one run, in one round trip (two where the server does not know the script). Raises
        StoreUnavailable.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                try:
                    return await self._client.execute_command("EVALSHA", script.sha, 1, key, *arguments)
                except NoScriptError:
                    # It was never there, or the server forgot it; this also makes it known.
                    return await self._client.execute_command("EVAL", script.source, 1, key, *arguments)
        except TimeoutError as error:
            raise _unavailable(f"the server did not answer within {self._timeout_s:g} s") from error
        except (ValkeyError, OSError) as error:
            raise _unavailable(str(error).rstrip(".") or type(error).__name__) from error

    async def close(self) -> None:
        await self._client.aclose()


def _unavailable(why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"The counters of quotas cannot be reached: {why}. Check that the Valkey server of the setting {SETTING} "
        "runs and can be reached from here.",
        retry_after_s=RETRY_AFTER_S,
    )
