"""All serving benchmarks: `python -m benchmarks.serving.run [QUESTION ...] [--quick] [--check]`.

Progress goes to stderr; the table to stdout; the whole, samples included, to a JSON file in benchmarks/results.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.serving import (
    bodies,
    connections,
    environment,
    generator,
    grpc_overhead,
    large_answer,
    many_models,
    metrics_cost,
    overhead,
    quota,
    real_model,
    shared_weights,
    startup,
    switch,
)
from benchmarks.serving.effort import FULL, QUICK
from benchmarks.serving.report import table, write_json

QUESTIONS = {
    "startup": startup.measure,
    "overhead": overhead.measure,
    "grpc": grpc_overhead.measure,
    **real_model.QUESTIONS,
    "shared_weights": shared_weights.measure,
    "switch": switch.measure,
    "large_answer": large_answer.measure,
    "generator": generator.measure,
    "connections": connections.measure,
    "bodies": bodies.measure,
    "many_models": many_models.measure,
    "metrics_cost": metrics_cost.measure,
    "quota": quota.measure,
}
RESULT = Path(__file__).parents[1] / "results" / "serving.local.json"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=f"one of {', '.join(QUESTIONS)}; default all")
    parser.add_argument("--quick", action="store_true", help="a minute instead of several: a smoke test, not a result")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the JSON goes (default %(default)s)")
    arguments = parser.parse_args()
    for question in arguments.questions:
        if question not in QUESTIONS:
            parser.error(f"no question {question!r}; choose from {', '.join(QUESTIONS)}")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    effort = QUICK if arguments.quick else FULL
    where = environment.describe()
    answers = [QUESTIONS[question](effort) for question in arguments.questions or QUESTIONS]
    figures = [figure for answer in answers for figure in answer.figures]
    print(environment.headline(where), table(figures), sep="\n\n")
    for answer in answers:
        if answer.disturbed_count:
            share = f"{answer.disturbed_count} of {len(answer.samples)} samples"
            print(f"\n{answer.question}: other work disturbed {share}; distrust the figures if that is many.")
    write_json(arguments.out, where, asdict(effort), answers)
    print(f"\nwritten to {arguments.out}", file=sys.stderr)
    return 1 if arguments.check and any(figure.is_met is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
