"""`guepard serve` as a command that ends by itself."""

import subprocess
import sys


def run_serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guepard", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
