"""YAML files whose errors name the file and the line.

Only plain data is read (mappings, lists, text, numbers, booleans, null). Two traps of YAML are
errors here: a number in scientific notation without a dot (`1e-3` would be read as text), and a
key that stands twice (the first would be lost).
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hsearch.errors import ConfigError

Scalar = str | int | float | bool | None
Value = Scalar | list["Value"] | dict[str, "Value"]

_DOTLESS_FLOAT = re.compile(r"[-+]?\d+[eE][-+]?\d+")


@dataclass(frozen=True)
class YamlFile:
    """A parsed file: its content, and the line where each dotted key stands.

    Attributes:
        path: Where it was read.
        content: The mapping at its top.
        lines: Line numbers, from 1, by key path, such as `("knobs", "method.tau", "low")`.
    """

    path: Path
    content: dict[str, Value]
    lines: dict[tuple[str, ...], int] = field(repr=False)

    def error(self, message: str, *keys: str) -> ConfigError:
        """Returns an error that begins with the file's name and the line of the key path."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return ConfigError(f"{_shown(self.path)}:{self.lines.get(keys, 1)}: {message}")


def read_yaml(path: Path) -> YamlFile:
    """Reads a YAML file with a mapping at its top."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{_shown(path)}:{line}: not valid YAML: {error.problem}.") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{_shown(path)} cannot be read as YAML: {error}.") from error
    reader = _Reader(path)
    content: Value = {} if root is None else reader.value(root, ())
    if not isinstance(content, dict):
        raise ConfigError(f"{_shown(path)}:1: the file must hold a mapping of keys to values.")
    return YamlFile(path, content, reader.lines)


class _Reader:
    """Turns YAML nodes into values and remembers their lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[tuple[str, ...], int] = {}

    def value(self, node: yaml.Node, keys: tuple[str, ...]) -> Value:
        line = node.start_mark.line + 1
        self.lines.setdefault(keys, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*keys, str(i))) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.style is None and _DOTLESS_FLOAT.fullmatch(node.value):
            fixed = node.value.lower().replace("e", ".0e")
            raise ConfigError(
                f"{_shown(self.path)}:{line}: YAML reads `{node.value}` as text, not as a number; "
                f"write `{fixed}`."
            )
        scalar: Value = yaml.SafeLoader("").construct_object(node)
        return scalar

    def _mapping(self, node: yaml.MappingNode, keys: tuple[str, ...]) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in result:
                raise ConfigError(f"{_shown(self.path)}:{line}: the key '{key}' stands twice.")
            self.lines[(*keys, key)] = line
            result[key] = self.value(value_node, (*keys, key))
        return result


def _shown(path: Path) -> str:
    """The part of a path that a user needs: the last folder and the name."""
    return "/".join(path.parts[-2:])
