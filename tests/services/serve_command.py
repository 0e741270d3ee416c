"""`guepard serve` as a command that ends by itself."""

import subprocess
import sys


def run_serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guepard", "serve", *arguments]
    for option in ("--http-port", "--grpc-port", "--metrics-port"):
        if option not in arguments:
            command += [option, "0"]  # whatever else runs on this machine has the default one
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
