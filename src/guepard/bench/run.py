"""`guepard bench` from its options to its exit code: the composition root of this room."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import msgspec

from guepard import __version__
from guepard.bench import html_report
from guepard.bench.answers import Answers, ask
from guepard.bench.gate import judge_gates
from guepard.bench.junit import write_junit
from guepard.bench.live_view import LiveView
from guepard.bench.local_model import OpenModel
from guepard.bench.measurement import Measurement
from guepard.bench.reading import verdict
from guepard.bench.subject import Subject
from guepard.bench.summary import print_summary
from guepard.bench.targets.target_refused import TargetRefused
from guepard.core.errors import ConfigurationError, GuepardError, LoadError
from guepard.limits.cpu_budget import cpu_budget
from guepard.measure import result_file
from guepard.measure.instrument import Interrupted
from guepard.measure.machine import commit_of, describe_machine, software_versions
from guepard.measure.results import Document, PayloadReport, Slo
from guepard.settings.bench_options import BenchOptions

INTERRUPTED = 130
