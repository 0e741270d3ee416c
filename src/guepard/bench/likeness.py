"""Did two results measure the same? Only then is one of them better."""

from guepard.bench.reading import headline_run
from guepard.core.errors import ConfigurationError
from guepard.measure.figures import percentile_text, rate_text
from guepard.measure.results import Document, Machine, Run

_SAME_RATE = 0.001


def same_machine(one: Machine, other: Machine) -> bool:
    """As far as figures depend on it: the CPU, how many there are, and how many may be used."""
    return (one.cpu, one.cores, one.cpu_budget) == (other.cpu, other.cores, other.cpu_budget)


def refuse_unlike(document: Document, baseline: Document) -> None:
    """Raises: ConfigurationError, which says what differs and which command would measure the same."""
    for name, now, before, advice in _questions(document, baseline):
        if now != before:
            raise ConfigurationError(
                f"--gate: not comparable: {name} is {now or 'none'}, in the baseline {before or 'none'}; {advice}"
            )
    run, base = headline_run(document), headline_run(baseline)
    if run is not None and base is not None and not document.comparisons:
        _refuse_other_load(run, base, is_search=document.edge is not None)


def _questions(document: Document, baseline: Document) -> list[tuple[str, str | None, str | None, str]]:
    """What must be equal: its name, the two values, and advice."""
    again = "measure the baseline again with --out"
    return [
        ("the question", _question(document), _question(baseline), "use the options that made the baseline"),
        ("the scenario", _scenario(document), _scenario(baseline), "use the options that made the baseline"),
        ("the goal", _goal(document), _goal(baseline), "write the baseline's --slo or --find-max"),
        ("the protocol", _protocol(document), _protocol(baseline), "write the baseline's --protocol"),
        ("the order of inputs", document.payloads.order, baseline.payloads.order, "write the baseline's --inputs"),
        (
            "the hash of the payloads",
            document.payloads.sha256[:12],
            baseline.payloads.sha256[:12],
            f"send the same --data, --shape, --batch and --seed, or {again}",
        ),
    ]


def _question(document: Document) -> str:
    if document.comparisons:
        return "--compare"
    return "--find-max" if document.edge is not None else "one load"


def _scenario(document: Document) -> str | None:
    """Its name; what it came to may follow."""
    return document.scenario.partition(":")[0] if document.scenario else None


def _goal(document: Document) -> str | None:
    slo = document.edge.slo if document.edge else document.slo
    return f"{percentile_text(slo.percent)}={slo.limit_ms:g}ms" if slo else None


def _protocol(document: Document) -> str | None:
    return document.targets[0].protocol if document.targets else None


def _refuse_other_load(run: Run, base: Run, *, is_search: bool) -> None:
    now, before = run.load, base.load
    if now.loop != before.loop:
        loops = {"open": "an open loop", "closed": "a closed loop"}
        raise _unlike(loops[now.loop], loops[before.loop], "--rate or --concurrency")
    if now.concurrency != before.concurrency:
        raise _unlike(f"{now.concurrency} callers", f"{before.concurrency}", f"--concurrency {before.concurrency}")
    if is_search or now.rate is None or before.rate is None:
        return
    if abs(now.rate - before.rate) > _SAME_RATE * before.rate:
        raise _unlike(rate_text(now.rate), rate_text(before.rate), f"--rate {before.rate:g}")
    if now.arrivals != before.arrivals:
        raise _unlike(now.arrivals, before.arrivals, "--arrivals")


def _unlike(now: str, before: str, option: str) -> ConfigurationError:
    return ConfigurationError(
        f"--gate: not comparable: the load is {now}, in the baseline {before}; write {option} as there, or make the "
        "baseline again with --out"
    )
