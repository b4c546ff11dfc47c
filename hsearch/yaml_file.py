"""YAML files whose errors name the file and the line.

Only plain data is read (mappings, lists, text, numbers, booleans, null). What YAML would misread
in silence is an error here: a number in scientific notation that lacks its dot or the sign of its
exponent (`1e-3` and `1.0e3` would be text), and a key that stands twice (the first would be lost).
Aliases are refused, so that a small file stays small in memory.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hsearch.errors import ConfigError

Scalar = str | int | float | bool | None
Value = Scalar | list["Value"] | dict[str, "Value"]

_SCIENTIFIC = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+))[eE]([-+]?)(\d+)")
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq")}


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
        return _error(self.path, self.lines.get(keys, 1), message)


def read_yaml(path: Path) -> YamlFile:
    """Reads a YAML file with a mapping at its top."""
    reader = _Reader(path)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        content: Value = {} if root is None else reader.value(root, ())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _error(path, line, f"not valid YAML: {error.problem}.") from error
    except OSError as error:
        raise ConfigError(f"{_shown(path)} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{_shown(path)} is not a UTF-8 text file of YAML.") from error
    except RecursionError as error:
        raise ConfigError(f"{_shown(path)} is nested too deeply to be read.") from error
    if not isinstance(content, dict):
        raise _error(path, 1, "the file must hold a mapping of keys to values.")
    return YamlFile(path, content, reader.lines)


class _Reader:
    """Turns YAML nodes into values and remembers their lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[tuple[str, ...], int] = {}
        self.seen: set[yaml.Node] = set()

    def value(self, node: yaml.Node, keys: tuple[str, ...]) -> Value:
        line = node.start_mark.line + 1
        self.lines.setdefault(keys, line)
        if node in self.seen:
            raise _error(self.path, line, "aliases are not read; write the value out.")
        self.seen.add(node)
        if node.tag not in _PLAIN_TAGS:
            kind = node.tag.removeprefix(_TAG)
            raise _error(self.path, line, f"a {kind} is not read here; put text in quotes.")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, keys)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*keys, str(i))) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, line)

    def _mapping(self, node: yaml.MappingNode, keys: tuple[str, ...]) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise _error(self.path, line, "a key must be a single word.")
            key = str(key_node.value)
            if key in result:
                raise _error(self.path, line, f"the key '{key}' stands twice.")
            self.lines[(*keys, key)] = line
            result[key] = self.value(value_node, (*keys, key))
        return result

    def _scalar(self, node: yaml.ScalarNode, line: int) -> Scalar:
        number = _SCIENTIFIC.fullmatch(node.value)
        if number and node.tag == _TAG + "str" and node.style is None:
            mantissa, sign, exponent = number.groups()
            dot = "" if "." in mantissa else ".0"
            raise _error(
                self.path,
                line,
                f"YAML reads `{node.value}` as text, not as a number; "
                f"write `{mantissa}{dot}e{sign or '+'}{exponent}`.",
            )
        try:
            scalar: Scalar = yaml.SafeLoader("").construct_object(node)
        except ValueError as error:
            raise _error(self.path, line, f"`{node.value[:20]}` is no usable number.") from error
        return scalar


def _error(path: Path, line: int, message: str) -> ConfigError:
    return ConfigError(f"{_shown(path)}:{line}: {message}")


def _shown(path: Path) -> str:
    """The part of a path that a user needs: the last folder and the name."""
    return "/".join(path.parts[-2:])
