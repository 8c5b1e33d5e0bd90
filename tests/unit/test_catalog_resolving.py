"""Aliases and their pools."""

import pytest

from forebay.catalog.catalog import Catalog, CatalogEntry, ModelVersion
from forebay.core.errors import ModelNotFound

SMALL = ModelVersion("small-1", "int8")
CATALOG = Catalog({"writer": "large", "reader": "small"}, {"large": ModelVersion("large-2"), "small": SMALL})


def test_an_alias_names_its_pool_and_what_that_serves() -> None:
    assert CATALOG.resolve("reader") == CatalogEntry("reader", "small", SMALL)
    assert [entry.alias for entry in CATALOG.entries()] == ["writer", "reader"]


def test_what_is_not_allowed_is_as_if_it_were_not_there() -> None:
    allowed = frozenset({"reader", "not there"})
    assert CATALOG.resolve("reader", allowed).pool == "small"
    assert [entry.alias for entry in CATALOG.entries(allowed)] == ["reader"]
    for name in ("writer", "not there"):
        with pytest.raises(ModelNotFound) as refused:
            CATALOG.resolve(name, allowed)
        assert refused.value.detail.endswith("Known models: reader.")


def test_an_unknown_name_is_told_the_known_ones_but_not_without_end() -> None:
    names = {f"model-{number:03}": "small" for number in range(500)}
    with pytest.raises(ModelNotFound) as refused:
        Catalog(names, {"small": SMALL}).resolve("x" * 10_000)
    assert "model-000" in refused.value.detail
    assert len(refused.value.detail) < 1000
    assert refused.value.param == "model"
