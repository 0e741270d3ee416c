"""PyTorch, imported once and told how its threads are to behave.

Threads: each thread that calls PyTorch has an OpenMP team and a number of its own (`torch.set_num_threads`), so every
execution sets what it may use. Between two operators a team would spin, for which OpenMP's own default is milliseconds:
time of CPUs that other executions have been given. Its policy is read when PyTorch is loaded, and set before.

Source: PyTorch, "CPU threading and TorchScript inference"; GNU libgomp, OMP_WAIT_POLICY and GOMP_SPINCOUNT.
"""

import logging
import os
import sys
import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from guepard.backends.extras import broken_extra, missing_extra

_LOGGER = logging.getLogger("guepard.backends.pytorch")


def import_torch(cpus: int) -> Any:
    """The module `torch`. `cpus`: what all models together may use. Cost: about 1.5 s, once.

    Raises: LoadError when it is not installed.
    """
    first = "torch" not in sys.modules
    if first:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library of its own that cannot be loaded
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise missing_extra("torch", "a PyTorch model") from None
        _LOGGER.error("importing PyTorch failed", exc_info=error)
        raise broken_extra("torch", "PyTorch", error) from None
    if first:
        with suppress(RuntimeError):  # something has been run on them already
            torch.set_num_interop_threads(max(1, cpus))  # tasks that a model forks by itself
        _say_once_that_arrays_are_read_only(torch)
        if "TORCH_LOGS" not in os.environ:
            _log_with_the_rest()
    return torch


def _log_with_the_rest() -> None:
    """What PyTorch logs becomes records of our log. It writes to stderr itself, with tracebacks, between ours."""
    for name in list(logging.root.manager.loggerDict):
        logger = logging.getLogger(name) if name == "torch" or name.startswith("torch.") else None
        if logger is not None and logger.handlers:
            logger.handlers.clear()
            logger.propagate = True


def _say_once_that_arrays_are_read_only(torch: Any) -> None:
    """PyTorch warns of the first read-only array that it views, and only of that. Models that write get copies."""
    array = np.zeros(1, np.uint8)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.from_numpy(array)
