"""Fixtures that many tests share."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from guepard.measure.load.generator import LoadGenerator
from guepard.testing.running_server import RunningServer
from tests.services.interrupts import heed_interrupts

# How long an example takes says more about the machine than about the code.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

Serve = Callable[..., RunningServer]


def pytest_configure() -> None:
    heed_interrupts()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the model files of one test module."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """Start servers that live as long as the module: `serve("a=a.onnx", "--trust")`."""
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(RunningServer(*arguments, **options))


@pytest.fixture(scope="module")
def generator() -> Iterator[LoadGenerator]:
    """One process that sends load, for as long as the module takes."""
    with LoadGenerator(1) as generator:
        yield generator
