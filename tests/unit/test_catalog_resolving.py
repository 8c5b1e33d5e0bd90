"""Aliases and their pools."""

import pytest

from forebay.catalog.catalog import Catalog, CatalogEntry
from forebay.core.errors import ModelNotFound


def test_an_alias_names_its_pool() -> None:
    catalog = Catalog({"writer": "large", "reader": "small"})
    assert catalog.resolve("reader") == CatalogEntry("reader", "small")
    assert [entry.alias for entry in catalog.entries()] == ["writer", "reader"]


def test_an_unknown_name_is_told_the_known_ones_but_not_without_end() -> None:
    catalog = Catalog({f"model-{number:03}": "pool" for number in range(500)})
    with pytest.raises(ModelNotFound) as refused:
        catalog.resolve("x" * 10_000)
    assert "model-000" in refused.value.detail
    assert len(refused.value.detail) < 1000
    assert refused.value.param == "model"
