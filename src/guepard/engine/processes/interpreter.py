"""A fresh interpreter that runs one of our functions, never a fork of this process."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def start_interpreter(
    module: str,
    arguments: Sequence[object],
    descriptors: Sequence[int],
    threads: int,
    *,
    stdin: int = subprocess.DEVNULL,
    output: int | None = None,
) -> "subprocess.Popen[bytes]":
    """Start `module.main(arguments)`, which gets `descriptors` under the same numbers. Raises: OSError.

    It finds what this process finds, wherever that was told to look. `threads` is how many its libraries may start.
    `output`: where stdout and stderr go; None: where ours do. Ctrl-C does not reach it: that is ours to handle.
    """
    environment = dict(os.environ)
    for variable in _THREAD_VARIABLES:
        environment.setdefault(variable, str(threads))
    code = f"import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); from {module} import main; main(sys.argv[1:])"
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, json.dumps(sys.path), *map(str, arguments)],
        env=environment,
        pass_fds=descriptors,
        stdin=stdin,
        stdout=output,
        stderr=output,
        process_group=0,
    )
