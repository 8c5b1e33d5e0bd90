"""What sees content before it is kept, and may change it."""

from collections.abc import Callable
from importlib import import_module
from typing import cast

from forebay.core.errors import ConfigurationError
from forebay.serving.content_log import Content

Redact = Callable[[Content], Content]
"""Called in several threads at once. What it returns is kept, and nothing is where it raises."""


def load_redactor(name: str) -> Redact:
    """The function that `package.module:function` names. Raises ConfigurationError."""
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(import_module(module_name), function_name)
    except Exception as error:
        # Whatever a module of others does while it is imported, the setting is where to look.
        raise ConfigurationError(
            f"content.redactor: cannot load {name} ({type(error).__name__}: {error}). Give package.module:function of "
            "what is installed beside Forebay."
        ) from error
    if not callable(function):
        raise ConfigurationError(f"content.redactor: {name} is no function but {type(function).__name__}.")
    return cast(Redact, function)
