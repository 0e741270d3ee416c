"""The page about a comparison, from its raw data alone: `python -m benchmarks.comparisons.page [RAW_FILE] [PAGE]`.

Writes docs/reference/comparison.md and its plots in a folder beside it.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.comparisons.choice import Point, Spread, best, engine_limits, lasting_setting, points, settled
from benchmarks.comparisons.goals import MODEL, OWNS, Goal, goals
from benchmarks.comparisons.plots import TITLES, plots
from benchmarks.comparisons.records import Comparison, PeerRecord, read
from benchmarks.comparisons.setting import LARGE_FACTOR, turns_for
from guepard.bench.figures import number

ROOT = Path(__file__).parents[2]
RAW = ROOT / "benchmarks" / "results" / "comparisons.json"
PAGE = ROOT / "docs" / "reference" / "comparison.md"
MODELS = {
    "mlp": "a small network of 30 numbers in and 2 out, which takes microseconds: what is measured is the server",
    "minilm": "all-MiniLM-L6-v2 in FP32, 128 tokens: some 20 to 30 ms of a core, so that the engine decides",
    "resnet50": "ResNet-50 in FP32 on 224 × 224 × 3 bytes: a heavy model with a large body (150 kB, in JSON 0.5 MB)",
}
NOTABLE = ("onnxruntime", "numpy", "uvicorn", "uvloop", "fastapi", "starlette", "pydantic", "grpcio")


def write_page(comparison: Comparison, page: Path) -> None:
    """The page, and its plots in a folder of its name beside it; plots of earlier runs go."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, svg in plots(comparison).items():
        (folder / name).write_text(svg)
    page.write_text(page_text(comparison, folder.name))


def page_text(comparison: Comparison, folder: str) -> str:
    chosen = best(settled(points(comparison)))
    parts = [
        "# Comparison with other servers",
        _preface(comparison),
        "## Guepard beside the best peer",
        _goals(goals(comparison)),
        *(part for model in comparison.models for part in _model(comparison, model, chosen, folder)),
        "## Where the differences come from",
        _sources(comparison, chosen),
        "## Who was measured, and how it was set up",
        *(_peer(peer) for peer in comparison.peers),
        _failures(comparison),
        "## How it is measured",
        _method(comparison),
        "## What these figures do not show",
        _limits(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _preface(comparison: Comparison) -> str:
    machine = comparison.environment["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}"
    disturbed = sum(not load.is_quiet for load in comparison.loads)
    lines = [
        "Guepard and servers that pip installs, with the same model files, the same requests and the same load, in "
        "turns on one machine. `make compare` measures it anew; `python -m benchmarks.comparisons.page` makes this "
        "page from the [raw data](../../benchmarks/results/comparisons.json), in which every single load is.",
        f"Machine: {where}. {comparison.environment['date'][:10]}, commit {comparison.environment['commit']}. "
        f"{comparison.turns} turn{'s' * (comparison.turns > 1)} of {comparison.duration_s:g} s a load, with large "
        f"models {turns_for('large', comparison.turns)} of {comparison.duration_s * LARGE_FACTOR:g} s, "
        f"{comparison.wall_s / 60:.0f} minutes in all. Other work on the machine disturbed {disturbed} of "
        f"{len(comparison.loads)} loads.",
    ]
    if comparison.is_quick:
        lines.insert(1, "**This was a quick run: it shows that everything works, not how fast it is.**")
    return "\n\n".join(lines)


def _goals(found: Sequence[Goal]) -> str:
    if not found:
        return "Not measured in this run."
    rows = [
        (
            goal.name,
            f"{number(goal.own_value)} {goal.unit}",
            f"{number(goal.peer_value)} {goal.unit}: {goal.peer.title}, {goal.peer.form}, {goal.peer.setting}",
            f"{goal.ratio:.2f} ×",
            f"{'≥' if goal.is_least else '≤'} {goal.limit:g} ×",
            "yes" if goal.is_met else "no",
        )
        for goal in found
    ]
    return (
        "On the MLP over HTTP, unless another model is named. The best peer is whichever has the best figure there, "
        "in any of its settings.\n\n" + _table(("figure", "Guepard", "best peer", "ratio", "wanted", "met"), rows)
    )


def _model(comparison: Comparison, model: str, chosen: Sequence[Point], folder: str) -> list[str]:
    here = [point for point in chosen if point.model == model]
    title = TITLES.get(model, model)
    parts = [f"## {title}", _sentence(MODELS.get(model, model)), _engine(comparison, model)]
    if not here:
        return [*parts, "Nothing was measured."]
    parts += [_picture(folder, model, name, title) for name in ("rate", "cpu")]
    for connections in sorted({point.connections for point in here}):
        at = sorted(
            (point for point in here if point.connections == connections),
            key=lambda each: each.requests_per_second.median,
            reverse=True,
        )
        parts += [f"### {title}, {connections} connection{'s' * (connections > 1)}", _loads(at)]
        parts.append(_picture(folder, model, f"latency-{connections}", title))
    parts += [f"### {title}, start and memory", _starts_and_memory(comparison, model, here)]
    parts += [_picture(folder, model, name, title) for name in ("start", "memory")]
    return parts


def _engine(comparison: Comparison, model: str) -> str:
    limits = engine_limits(comparison, model)
    if not limits:
        return ""
    told = " and ".join(f"{number(rate.median)} rows/s in batches of {size}" for size, rate in limits.items())
    return f"ONNX Runtime by itself, without a server: {told}."


def _loads(at: Iterable[Point]) -> str:
    rows = []
    for point in at:
        name = f"**{point.title}**" if point.peer in OWNS else point.title
        p99 = number(point.p99_ms.median) if point.is_p99_supported else f"({number(point.p99_ms.median)})"
        failed = f"{point.failed:,}" if point.failed else ""
        rate, cpu = _spread(point.requests_per_second), _spread(point.cpu_us)
        rows.append((name, point.form, point.setting, rate, cpu, number(point.p50_ms.median), p99, failed))
    head = ("server", "form", "best setting", "requests/s", "CPU µs/request", "p50 ms", "p99 ms", "failed")
    return _table(head, rows)


def _starts_and_memory(comparison: Comparison, model: str, here: Sequence[Point]) -> str:
    rows = []
    for peer in comparison.peers:
        mine = [point for point in here if point.peer == peer.name]
        if not mine:
            continue
        last = lasting_setting(mine)
        forms = {"all", last.form}
        starts = [
            start
            for start in comparison.starts
            if (start.peer, start.model, start.setting) == (peer.name, model, last.setting) and start.form in forms
        ]
        loads = [
            load
            for load in comparison.loads
            if (load.peer, load.model, load.setting, load.form) == (peer.name, model, last.setting, last.form)
        ]
        rows.append(
            (
                f"**{peer.title}**" if peer.name in OWNS else peer.title,
                last.setting,
                _spread(Spread.of(start.start_s for start in starts)),
                str(max(start.processes for start in starts)),
                _sizes(
                    median(start.idle_rss_bytes for start in starts), median(start.idle_pss_bytes for start in starts)
                ),
                _sizes(max(load.rss_bytes for load in loads), max(load.pss_bytes for load in loads)),
            )
        )
    head = ("server", "setting", "start s", "processes", "RSS / PSS MB at the first answer", "RSS / PSS MB under load")
    return _table(head, rows)


def _sizes(rss_bytes: float, pss_bytes: float) -> str:
    return f"{rss_bytes / 1e6:,.0f} / {pss_bytes / 1e6:,.0f}"


def _sources(comparison: Comparison, chosen: Sequence[Point]) -> str:
    engines = {peer.versions.get("onnxruntime") for peer in comparison.peers if peer.versions}
    same = (
        f"All run the same file on ONNX Runtime {engines.pop()}, so nothing on this page is won by a faster engine."
        if len(engines) == 1
        else f"Not all run the same ONNX Runtime ({', '.join(sorted(map(str, engines)))}): mind the versions below."
    )
    parts = [
        f"- **Engine.** {same} With the large models all that keep two cores busy end up near what the engine does by "
        "itself, and their order is partly noise.",
        f"- **Hops.** On the MLP the engine takes {_engine_us(comparison)} of a request. The rest is HTTP, decoding, "
        "and above all how often a request changes hands: between the socket's process or thread, a queue, and the "
        "worker that has the model. Guepard runs so short a model on its event loop, so there is no hop.",
        "- **Batches.** With many connections, one execution for many requests divides the price of a hop among them. "
        "MOSEC and Triton win most of theirs so; the MLP's tables show at which number of connections.",
        "- **Form.** A binary body costs no parsing of numbers: little on the MLP, much with an image. V2's binary "
        "form still carries a JSON head with names, shapes and datatypes, which raw bytes do not: such a peer knows "
        "the shape because its code was written for one model.",
        *_json_against_binary(chosen),
        "- **Start.** Guepard executes a model at several batch sizes while it loads it, to learn which of them pay. "
        "With a large model that is most of its start; peers are told their batch size instead.",
        "- **Threads.** Where a large model is asked by one client, one execution over all cores answers sooner than "
        "one core can; under load one thread for each execution does more. Peers are started in either way, and the "
        "better one is told.",
    ]
    return "\n".join(parts)


def _engine_us(comparison: Comparison) -> str:
    alone = engine_limits(comparison, MODEL).get(1)
    return f"{number(1e6 / alone.median, 2)} µs" if alone else "some microseconds"


def _json_against_binary(chosen: Sequence[Point]) -> list[str]:
    """How much JSON costs those that were measured in both forms, on the image."""
    image = [point for point in chosen if point.model == "resnet50" and point.connections == 8]
    lines = []
    for peer in dict.fromkeys(point.peer for point in image):
        kinds = {point.kind: point for point in image if point.peer == peer}
        if {"json", "binary"} <= kinds.keys():
            json, binary = kinds["json"], kinds["binary"]
            lines.append(
                f"  - {json.title}, ResNet-50 at 8 connections: {number(json.requests_per_second.median)} requests/s "
                f"in JSON, {number(binary.requests_per_second.median)} as {binary.form}."
            )
    return lines


def _peer(peer: PeerRecord) -> str:
    own = peer.versions.get(peer.package, "not installed")
    others = [f"{name} {peer.versions[name]}" for name in NOTABLE if name in peer.versions and name != peer.package]
    python = f"Python {peer.versions['python']}, " if "python" in peer.versions else ""
    return f"- [{peer.title}]({peer.home}), `{peer.package}` {own} ({python}{', '.join(others)}): {peer.set_up}"


def _failures(comparison: Comparison) -> str:
    if not comparison.failures:
        return "None of them failed to start or gave a wrong answer."
    lines = ["What could not be measured:", ""]
    for failure in comparison.failures:
        reason = " ".join(failure.reason.split())[-300:].replace("`", "'").replace("|", "/")
        lines.append(f"- {failure.peer}, {failure.model}, {failure.setting}, {failure.form}: `{reason}`")
    return "\n".join(lines)


def _method(comparison: Comparison) -> str:
    return "\n".join(
        (
            "- **Load**: Guepard's own generator (`guepard.measure`), one process, closed loop: each connection "
            "sends its next request when it has the answer. One row a request, the same each time. Over gRPC each "
            "connection carries one call at a time. Nothing is pinned: server and client share the cores.",
            "- **Turns**: in each turn every contender is started anew in every setting that may be its best, asked "
            "once and its answer compared with ONNX Runtime's, warmed up for a second, loaded, and ended. The next "
            "turn begins with another contender. After the first turn, a setting that was more than 10 % worse than "
            "another of the same contender in every figure of a point is not measured there again. Others are measured "
            "nowhere "
            "but where they can be best: one wide execution, and no batching with the small model, at few connections. "
            "A figure is the median of the turns, with smallest and largest beside it.",
            "- **Best setting**: the one with the most requests per second in that form at that number of connections. "
            "Ratios are taken against the lowest figure of any setting.",
            "- **CPU per request**: user and system time of the server's whole process tree, from `/proc`, for each "
            "good answer; the kernel's work at the server's end of the socket is in it. It depends less on the "
            "client and on other work than requests per second do.",
            "- **Latency**: as the client sees it, percentiles of all requests of a load; a p99 in brackets had too "
            "few of them to be told.",
            "- **Memory**: RSS counts pages that processes share once for each; PSS divides them among all that have "
            "them, processes outside the server included, such as the generator, which runs on the same libraries as "
            "Guepard. The truth lies between the two. Of MOSEC one form is served at a time, as each has worker "
            "processes of its own.",
            "- **Quiet**: a load waits for a quiet machine, and runs once more when other work took more than 0.15 "
            "cores meanwhile.",
            f"- **Threads**: ONNX Runtime has one thread for each of {comparison.environment['machine']['cores']} "
            "instances, or all for one instance, and does not spin. Guepard runs with its defaults.",
        )
    )


def _limits() -> str:
    return (
        "A closed loop slows down with the server: it shows capacity, not what happens when requests keep coming at "
        "their own rate. Client and server share the machine, over loopback: no network, no TLS, and requests per "
        "second are those of the pair. All requests are the same, valid and of one row: no mix of models, no slow "
        "clients, no failures. Two cores are few: servers that spread over many processes may do better, beside "
        "others, on a larger machine. Nothing here is about GPUs, where batches weigh more. Peers have features that "
        "Guepard lacks, and those are not weighed. The settings are the best that we found in the documents of each; "
        "whoever knows a better one can change its declaration in `benchmarks/comparisons/peers/` and measure again."
    )


def _spread(spread: Spread) -> str:
    middle, low, high = number(spread.median), number(spread.low), number(spread.high)
    return middle if low == high else f"{middle} ({low}–{high})"


def _picture(folder: str, model: str, name: str, title: str) -> str:
    return f"![{title}: {name.replace('-', ', ')}]({folder}/{model}-{name}.svg)"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", nargs="?", type=Path, default=RAW, help="default %(default)s")
    parser.add_argument("page", nargs="?", type=Path, default=PAGE, help="default %(default)s")
    arguments = parser.parse_args()
    write_page(read(arguments.raw), arguments.page)
    print(f"written to {arguments.page}")


if __name__ == "__main__":
    main()
