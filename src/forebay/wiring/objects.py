"""Where the platform keeps objects."""

from forebay.config.loading import LoadedConfig
from forebay.storage.objects.opening import open_objects
from forebay.storage.objects.store import ObjectStore


def open_platform_objects(loaded: LoadedConfig) -> ObjectStore:
    """Raises ConfigurationError."""
    storage = loaded.config.storage
    given = {
        "endpoint": storage.objects_endpoint,
        "region": storage.objects_region,
        "access_key_id": storage.objects_access_key,
        "secret_access_key": storage.objects_secret_key,
    }
    options = {name: value for name, value in given.items() if value is not None}
    return open_objects(storage.objects or loaded.data_dir / "objects", options)
