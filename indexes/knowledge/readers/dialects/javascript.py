"""The values in a tag of JSX as far as they are literals, which are YAML."""

from __future__ import annotations

import re
from typing import Any

import yaml

NEST = r"\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*\}"
_ATTRIBUTE = re.compile(rf"\s([\w:-]+)=(?:\"([^\"]*)\"|'([^']*)'|({NEST}))")


def values_of(tag: str, code: list[str]) -> dict[str, Any]:
    """Returns the values of a tag's attributes: texts, arrays and objects; other code is "", and added to `code`."""
    return {name: _literal(nest[1:-1], code) if nest else a or b for name, a, b, nest in _ATTRIBUTE.findall(tag)}


def _literal(expression: str, code: list[str]) -> Any:
    text = re.sub(r"(\w):(?=[\"'\[{])", r"\1: ", re.sub(r"`([^`$\"]*)`", r'"\1"', expression)).replace("\t", " ")
    try:
        is_literal = not any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text))
        return _value(yaml.compose(text) if is_literal else yaml.ScalarNode("", expression), code)
    except (yaml.YAMLError, RecursionError):
        return _value(yaml.ScalarNode("", expression), code)


def _value(node: Any, code: list[str]) -> Any:
    if isinstance(node, yaml.CollectionNode):
        pairs = [(str(pair[0].value), pair[1]) if isinstance(pair, tuple) else ("", pair) for pair in node.value]
        values = [(name, _value(value, code)) for name, value in pairs]
        return dict(values) if isinstance(node, yaml.MappingNode) else [value for _, value in values]
    is_text = node is not None and (node.style in ("'", '"') or re.fullmatch(r"[\d.,]+", node.value) is not None)
    code += [] if is_text or node is None else [node.value]
    return node.value if is_text else ""
