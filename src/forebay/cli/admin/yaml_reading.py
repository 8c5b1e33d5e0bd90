"""YAML as plain values, read more strictly than usual: no key twice, numbers exactly as written, dates as text."""

from decimal import Decimal, InvalidOperation
from typing import Any, cast

import yaml

from forebay.core.errors import ConfigurationError

MERGE_TAG = "tag:yaml.org,2002:merge"
FLOAT_TAG = "tag:yaml.org,2002:float"
TIMESTAMP_TAG = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe one, with the differences above."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == MERGE_TAG:
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain word", key_node.start_mark)
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key_node.value!r} is there twice", key_node.start_mark
                )
            seen.add(key_node.value)
        return cast(dict[Any, Any], super().construct_mapping(node, deep))

    def exact_float(self, node: yaml.ScalarNode) -> Decimal:
        text = str(self.construct_scalar(node)).replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")
        try:
            return Decimal(text)
        except InvalidOperation:
            raise yaml.constructor.ConstructorError(
                None, None, f"{node.value!r} is not a number; put it in quotes if it is text", node.start_mark
            ) from None

    def date_as_text(self, node: yaml.ScalarNode) -> str:
        return str(self.construct_scalar(node))


_Loader.add_constructor(FLOAT_TAG, _Loader.exact_float)
_Loader.add_constructor(TIMESTAMP_TAG, _Loader.date_as_text)


def read_yaml(text: str, name: str) -> Any:
    """The one document in `text`. Raises ConfigurationError, which names `name` and the line."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        raise ConfigurationError(f"{name}{where}: {error.problem or error.context or 'not valid YAML'}.") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{name}: not valid YAML: {error}.") from None
    except RecursionError:
        raise ConfigurationError(f"{name}: nested too deeply.") from None
    except ValueError as error:
        raise ConfigurationError(f"{name}: a value is not what it is marked as ({error}).") from None
