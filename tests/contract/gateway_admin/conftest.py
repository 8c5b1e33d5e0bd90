"""One platform for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.gateway_admin.platform import AdminPlatform, admin_platform


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[AdminPlatform]:
    with admin_platform(tmp_path) as made:
        yield made


@pytest.fixture
def tenant(platform: AdminPlatform) -> str:
    """The id of a tenant."""
    return platform.made("tenants", id="search")["id"]
