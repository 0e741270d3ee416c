"""What the command line of `guepard bench` says, as one struct."""

from collections.abc import Mapping

from guepard.settings.bench_options import BenchOptions
from guepard.settings.bench_rules import enforce
from guepard.settings.section import section_of
from guepard.settings.switches import read_flags, switches_of

BENCH_SWITCHES = tuple(switch for switch in switches_of(BenchOptions) if switch.section)
BENCH_BY_KEY = {switch.key: switch for switch in BENCH_SWITCHES}


def read_bench_options(target: str | None, flags: Mapping[str, object]) -> BenchOptions:
    """`flags` holds the texts that were written, by key (`load.rate`). Raises: ConfigurationError."""
    tree = read_flags(flags, BENCH_BY_KEY)
    options: BenchOptions = section_of(BenchOptions).build(tree | {"target": target})
    enforce(options, {BENCH_BY_KEY[key].option.name for key in flags})
    return options
