"""`guepard serve`: makes an API of one or many models."""

import os
import sys
import threading
from argparse import Namespace
from pathlib import Path

from guepard.cli.parser import Parser
from guepard.core.errors import ConfigurationError

SUMMARY = "Make models an API that is fast and does not fall over."

_EXAMPLES = """\
MODEL is an ONNX file, a model folder, module.py:Class or a model repository; NAME=PATH names it. Without MODEL,
--model-repository and --config, ./guepard.yaml is read. The command line wins over the environment, that over the file.

example:
  guepard serve classifier.onnx --http-port 8000
  curl localhost:8000/v2/models/classifier
  curl localhost:8000/v2/models/classifier/infer -H 'content-type: application/json' \\
    -d '{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [5.1, 3.5, 1.4]}]}'

  guepard serve sentiment=./models/sentiment_v2.onnx tokenizer.py:Tokenizer --check
"""


def add_arguments(parser: Parser) -> None:
    from guepard.cli.switches import add_switches

    parser.usage = "guepard serve [MODEL ...] [OPTIONS]"
    parser.epilog = _EXAMPLES
    parser.add_argument("models", nargs="*", metavar="MODEL", help="what to serve, as PATH or NAME=PATH")
    parser.add_argument("--config", metavar="FILE", help="the configuration file [GUEPARD_CONFIG]")
    parser.add_argument("--check", action="store_true", help="say what would be served, or what is wrong; do not serve")
    parser.add_argument("--json", action="store_true", help="with --check: print one JSON document")
    add_switches(parser)


def run(arguments: Namespace, started_ns: int) -> int:
    from guepard.cli.switches import given
    from guepard.settings.resolve import resolve

    if arguments.json and not arguments.check:
        raise ConfigurationError("--json goes with --check; for logs in JSON write --log-format json")
    try:
        resolution = resolve(
            arguments.models,
            flags=given(arguments),
            config=arguments.config,
            environment=os.environ,
            folder=Path.cwd(),
            is_terminal=sys.stderr.isatty(),
        )
    except ConfigurationError as error:
        if arguments.json:
            from guepard.cli.check import refusal

            print(refusal(error))
        raise
    if arguments.check:
        from guepard.cli.check import check

        return check(resolution, as_json=arguments.json)

    from guepard.server.lifecycle import serve

    return _ended(serve(resolution.settings, started_ns))


def _ended(code: int) -> int:
    """Return `code`, or leave with it at once if a load or an execution had to be left behind.

    Its thread may be deep inside an engine. Python's own way out stops such a thread by unwinding it, which C++ code
    answers with an abort.
    """
    if any(thread.daemon for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
