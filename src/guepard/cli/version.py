"""`guepard version`: what is installed."""

import json
import platform
from argparse import Namespace

from guepard import __version__
from guepard.cli.parser import Parser

SUMMARY = "Say which version this is, and on what it runs."

_PACKAGES = ("onnxruntime", "numpy", "uvloop", "httptools", "msgspec")


def add_arguments(parser: Parser) -> None:
    parser.epilog = "example:\n  guepard version --json\n"
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(arguments: Namespace, started_ns: int) -> int:
    from guepard.protocols.compiled_part import load_compiled

    versions = {"guepard": __version__, "python": platform.python_version()} | _installed()
    numbers = "pure Python" if load_compiled() is None else "compiled"
    if arguments.json:
        print(json.dumps(versions | {"json_numbers": numbers, "platform": platform.platform()}))
    else:
        others = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "guepard" and version)
        print(f"guepard {__version__} ({others}; JSON numbers: {numbers})")
    return 0


def _installed() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
