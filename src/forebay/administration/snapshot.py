"""All of the configuration, as requests are served by it."""

from dataclasses import dataclass

from forebay.administration.store import Contents
from forebay.metering.pricing import PriceBook
from forebay.tenancy.directory import Directory
from forebay.tenancy.resources import PlatformPrompt


@dataclass(frozen=True, slots=True)
class PlatformSnapshot:
    """The configuration as of one `change` number. Pure, and never changed: a newer one takes its place."""

    change: int
    directory: Directory
    prices: PriceBook
    prompts: tuple[PlatformPrompt, ...]

    def prompts_for(self, alias: str) -> tuple[str, ...]:
        """The texts of the platform prompts that are for `alias`."""
        return tuple(prompt.text for prompt in self.prompts if prompt.models is None or alias in prompt.models)


def snapshot_of(contents: Contents) -> PlatformSnapshot:
    return PlatformSnapshot(
        change=contents.change,
        directory=Directory(contents.tenants, contents.keys, contents.quotas),
        prices=PriceBook(contents.prices),
        prompts=tuple(contents.prompts),
    )
