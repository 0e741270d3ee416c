"""The whole comparison: `python -m benchmarks.comparisons.run [--peers a,b] [--models mlp,minilm] [--quick]`.

Makes each peer's environment, then visits all contenders by turns. Progress goes to stderr, raw data to a JSON file in
benchmarks/results, and the page and its plots, unless it is a part of the comparison, to docs/reference.
"""

import argparse
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.comparisons import records
from benchmarks.comparisons.choice import Wanted, points, points_of, promising
from benchmarks.comparisons.engine_limit import measure_engine
from benchmarks.comparisons.form import Form
from benchmarks.comparisons.goals import goals
from benchmarks.comparisons.page import PAGE, write_page
from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.peer_environment import NotInstalled, PeerEnvironment, environment_of
from benchmarks.comparisons.records import (
    Comparison,
    EngineRecord,
    FailureRecord,
    LoadRecord,
    PeerRecord,
    StartRecord,
)
from benchmarks.comparisons.registry import BY_NAME
from benchmarks.comparisons.setting import SMALL_MODELS, turns_for
from benchmarks.comparisons.visit import Load, Server, Visit, measure_form, serving, start_record, visits
from benchmarks.models import MODELS, ReferenceModel
from benchmarks.serving import environment
from benchmarks.serving.contender import NotServing
from guepard.measure.load.generator import LoadGenerator
from guepard.settings.units import Duration

RESULTS = Path(__file__).parents[1] / "results"
RESULT, PARTIAL_RESULT = RESULTS / "comparisons.json", RESULTS / "comparisons.local.json"
COMPARED_MODELS = ("mlp", "minilm", "resnet50")
LARGE_CONNECTIONS = frozenset((1, 8))
"""More would only wait for a large model: its two cores are full with eight."""


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peers", type=_names(BY_NAME), default=tuple(BY_NAME), help=f"of {', '.join(BY_NAME)} (default all)"
    )
    parser.add_argument(
        "--models", type=_names(COMPARED_MODELS), default=COMPARED_MODELS, help=f"of {', '.join(COMPARED_MODELS)}"
    )
    parser.add_argument("--connections", type=_counts, default=(1, 8, 64), help="for large models only those up to 8")
    parser.add_argument(
        "--duration", type=_seconds, default=2.0, help="of one load; with large models half as much again (2s)"
    )
    parser.add_argument("--turns", type=_count, default=3, help="for each contender; with large models one less (3)")
    parser.add_argument("--quick", action="store_true", help="one turn of short loads: does it work?")
    parser.add_argument(
        "--out", type=Path, help=f"where the raw data go (default {RESULT.name}, in benchmarks/results)"
    )
    parser.add_argument("--install", action="store_true", help="make the environments and models, and stop")
    arguments = parser.parse_args(words)
    if arguments.quick:
        arguments.turns, arguments.duration = 1, min(arguments.duration, 1.0)
    return arguments


def _names(known: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    def names(text: str) -> tuple[str, ...]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r}: choose from {', '.join(known)}")
        return tuple(name for name in known if name in chosen)

    return names


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text}: write 1 or more")
    return count


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(word) for word in text.split(",")}))


def _seconds(text: str) -> float:
    try:
        seconds = Duration.read(text) / 1e9
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text}: write a duration above 0, such as 2s")
    return seconds


class Gathering:
    """What was seen so far. What fails is told, and not tried again with the same model and setting."""

    def __init__(self) -> None:
        self.engine: list[EngineRecord] = []
        self.starts: list[StartRecord] = []
        self.loads: list[LoadRecord] = []
        self.failures: list[FailureRecord] = []

    def visit(self, visit: Visit, environment: PeerEnvironment, load: Load, turn: int) -> None:
        if self._has_failed(visit, visit.form_name):
            return
        print(f"turn {turn + 1}, {visit}", file=sys.stderr, flush=True)
        try:
            with serving(visit, environment) as server:
                self.starts.append(start_record(visit, server, turn))
                for form in visit.forms:
                    self.load(visit, form, server, load, turn)
        except (NotServing, OSError, subprocess.CalledProcessError) as error:
            self.fail(visit, visit.form_name, str(error))

    def load(self, visit: Visit, form: Form, server: Server, load: Load, turn: int) -> None:
        if self._has_failed(visit, form.name):
            return
        try:
            self.loads += measure_form(visit, form, server, load, turn)
        except Exception as error:
            # Whatever it is, half an hour of other figures is not lost to it.
            traceback.print_exc()
            self.fail(visit, form.name, f"{type(error).__name__}: {error}")

    def promising(self) -> set[Wanted]:
        """What is worth another turn."""
        return promising(points_of(self.loads, {load.peer: "" for load in self.loads}))

    def fail(self, visit: Visit, form: str, reason: str) -> None:
        print(f"  failed: {reason}", file=sys.stderr, flush=True)
        self.failures.append(
            FailureRecord(
                peer=visit.peer.name,
                model=visit.model.name,
                setting=visit.setting.name,
                form=form,
                reason=reason[-1_000:],
            )
        )

    def _has_failed(self, visit: Visit, form: str) -> bool:
        about = (visit.peer.name, visit.model.name, visit.setting.name, form)
        return any((each.peer, each.model, each.setting, each.form) == about for each in self.failures)


def environments(peers: Iterable[Peer], failures: list[FailureRecord]) -> dict[str, PeerEnvironment]:
    """Of those that could be installed."""
    found = {}
    for peer in peers:
        try:
            found[peer.name] = environment_of(peer)
        except NotInstalled as error:
            print(f"{peer.title} cannot be installed: {error}", file=sys.stderr, flush=True)
            failures.append(
                FailureRecord(peer=peer.name, model="all", setting="all", form="all", reason=f"not installed: {error}")
            )
    return found


def rotated(peers: Sequence[Peer], turn: int) -> list[Peer]:
    """So that nobody is always the one after the same neighbour's start of the turn."""
    first = turn * max(1, len(peers) // 3) % max(1, len(peers))
    return [*peers[first:], *peers[:first]]


def schedule(models: Iterable[ReferenceModel], turns: int) -> Iterator[tuple[ReferenceModel, int]]:
    """A model after the other, each with its turns."""
    for model in models:
        yield from ((model, turn) for turn in range(turns_for(model.name, turns)))


def main() -> int:
    arguments = parse_arguments()
    # However this is ended, what it started is ended with it.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    began = time.monotonic()
    where = environment.describe()
    gathering = Gathering()
    peers = [BY_NAME[name] for name in arguments.peers]
    installed = environments(peers, gathering.failures)
    models = [MODELS[name] for name in arguments.models]
    for model in models:
        model.path()
    if arguments.install:
        return 1 if gathering.failures else 0
    with LoadGenerator(1) as generator:
        whole = Load(generator, arguments.duration, *((0.5, 1) if arguments.quick else (10.0, 2)))
        present = [peer for peer in peers if peer.name in installed]
        for model, turn in schedule(models, arguments.turns):
            load = whole.of(model)
            # The first turn tries every setting; the others measure those that may be the best.
            wanted = gathering.promising() if turn else None
            gathering.engine += measure_engine(model, load, turn)
            for peer in rotated(present, turn):
                for every in visits(peer, model, connections_for(model.name, arguments.connections)):
                    visit = every if wanted is None else every.only(wanted)
                    if visit is not None:
                        gathering.visit(visit, installed[peer.name], load, turn)
    comparison = Comparison(
        environment=where,
        duration_s=arguments.duration,
        turns=arguments.turns,
        connections=arguments.connections,
        models=arguments.models,
        is_quick=arguments.quick,
        wall_s=round(time.monotonic() - began, 1),
        peers=tuple(peer_record(peer, installed.get(peer.name)) for peer in peers),
        engine=tuple(gathering.engine),
        starts=tuple(gathering.starts),
        loads=tuple(gathering.loads),
        failures=tuple(gathering.failures),
    )
    is_whole = arguments.peers == tuple(BY_NAME) and arguments.models == COMPARED_MODELS
    out = arguments.out or (RESULT if is_whole else PARTIAL_RESULT)
    records.write(out, comparison)
    print(f"written to {out}, after {comparison.wall_s:.0f} s", file=sys.stderr)
    if out == RESULT:
        write_page(comparison, PAGE)
        print(f"written to {PAGE}", file=sys.stderr)
    print(summary(comparison))
    return 0


def connections_for(model: str, asked: tuple[int, ...]) -> tuple[int, ...]:
    return asked if model in SMALL_MODELS else tuple(each for each in asked if each in LARGE_CONNECTIONS)


def peer_record(peer: Peer, installed: PeerEnvironment | None) -> PeerRecord:
    return PeerRecord(
        name=peer.name,
        title=peer.title,
        home=peer.home,
        set_up=peer.set_up,
        package=peer.package,
        versions=installed.versions if installed else {},
    )


def summary(comparison: Comparison) -> str:
    """A line for each point, for the terminal."""
    rows = [
        f"{point.model:9} {point.connections:3} {point.title:18} {point.form:12} {point.setting:28} "
        f"{point.requests_per_second.median:9,.0f}/s {point.cpu_us.median:9,.0f} µs "
        f"{point.p50_ms.median:8.2f} {point.p99_ms.median:8.2f} ms"
        for point in points(comparison)
    ]
    return "\n".join([*rows, "", *(f"{goal}" for goal in goals(comparison))])


if __name__ == "__main__":
    sys.exit(main())
