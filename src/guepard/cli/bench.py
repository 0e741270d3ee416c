"""`guepard bench`: says how fast a model API is."""

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from guepard.cli.parser import Parser

if TYPE_CHECKING:
    from guepard.embedding.local_model import LocalModel

SUMMARY = "Measure how fast a model API is, and say how far the figures can be trusted."

_EXAMPLES = """\
TARGET is a URL, whatever serves there, or a MODEL that guepard serves meanwhile: an ONNX file, a model folder,
module.py:Class. With --protocol in-process a MODEL is called without any server. Without --rate and --concurrency a
short closed loop finds how much the target can take, and the run is an open loop at half of that.

exit codes: 0 done, and the figures are valid; 1 the work failed, a run is INVALID (too many errors and unsteady figures
included) or the gate is missed; 2 wrong usage; 130 interrupted: the report is of what was measured until then.

examples:
  what do users wait at 200 requests/s?
    guepard bench http://localhost:8000/v2/models/classifier --rate 200 --duration 30s --report out.html

  how many requests/s keep p99 within 50 ms?
    guepard bench http://localhost:8000 --model classifier --find-max p99=50ms

  is B faster than A?
    guepard bench http://localhost:8000 --compare http://localhost:9000 --model classifier

  did this change make it slower? (exit code 1 if so)
    guepard bench http://localhost:8000 --rate 200 --out baseline.json
    guepard bench http://localhost:8000 --rate 200 --gate baseline.json --junit gate.xml

  any HTTP server, and tokens of a language model
    guepard bench --curl "curl localhost:5000/score -H 'content-type: application/json' -d @body.json" --concurrency 8
    guepard bench http://localhost:8080/v1 --protocol openai-chat --model llama --rate 2 --slo p99=2s
"""


def add_arguments(parser: Parser) -> None:
    from guepard.cli.switches import add_switches
    from guepard.settings.bench_options import BenchOptions
    from guepard.settings.bench_reading import BENCH_SWITCHES

    parser.usage = "guepard bench TARGET [OPTIONS]"
    parser.epilog = _EXAMPLES
    parser.add_argument("target", nargs="?", metavar="TARGET", help="what to measure: a URL or a MODEL")
    add_switches(parser, BenchOptions, BENCH_SWITCHES, has_environment=False)


def run(arguments: Namespace, started_ns: int) -> int:
    from guepard.cli.switches import given
    from guepard.settings.bench_reading import BENCH_BY_KEY, read_bench_options
    from guepard.settings.command_words import without_secrets

    options = read_bench_options(arguments.target, given(arguments, BENCH_BY_KEY))
    command = ("guepard", "bench", *without_secrets(arguments.words))

    from guepard.bench.run import run as run_bench

    return run_bench(options, command=command, open_model=_open_model, stdout=sys.stdout, stderr=sys.stderr)


def _open_model(model: str, trust: bool) -> "LocalModel":
    from guepard.embedding.local_model import load

    return load(model, trust=trust)
