"""A YAML file as plain mappings, lists and scalars; what is wrong with it is said with the line."""

from pathlib import Path
from typing import Any

from guepard.core.errors import ConfigurationError


def read_yaml(path: Path) -> Any:
    """The content of the file, None when it is empty.

    Only plain data is built (safe loader); a key written twice is an error, where YAML would keep the last.
    Raises: ConfigurationError, without the name of the file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}") from None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"line {line}: not UTF-8 text") from None
    return _parse(text)


def _parse(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """The safe loader, minus repeated keys."""

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            seen: dict[Any, int] = {}
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                line = key.start_mark.line + 1
                if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                    raise ConfigurationError(
                        f"line {line}: {key.value} is written twice, first in line {seen[key.value]}; keep one"
                    )
                seen[key.value] = line
            super().flatten_mapping(node)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigurationError(f"line {line}: a character that YAML does not allow") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ConfigurationError(f"line {line}: not valid YAML: {error.problem or error.context}") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigurationError(f"not valid YAML: {reason}") from None
