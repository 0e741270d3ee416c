"""One closed-loop gRPC load by `h2load`: a child process, one thread, one call at a time on each connection.

h2load sees HTTP/2 and no gRPC status: whoever calls this checks an answer before, and the server's own counts after.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.serving.grpc_payload import PATH
from benchmarks.serving.load import LoadError, LoadResult

FINISHED = re.compile(r"finished in ([\d.]+)s, ([\d.]+) req/s")
COUNTS = re.compile(r"requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout")


def run_grpc_load(
    port: int, message: bytes, connections: int, seconds: int, prefix: tuple[str, ...] = ()
) -> LoadResult:
    """Send `message` on `connections` connections for `seconds`. Percentiles are not told. Raises: LoadError."""
    if shutil.which("h2load") is None:
        raise LoadError("the load client `h2load` is not installed; run `apt-get install nghttp2-client`")
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        body = Path(folder, "body")
        body.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
        command = [*prefix, "h2load", "-t1", f"-c{connections}", "-m1", f"-D{seconds}", f"--data={body}"]
        headers = ["--header=content-type: application/grpc", "--header=te: trailers"]
        h2load = subprocess.run(
            [*command, *headers, f"http://127.0.0.1:{port}{PATH}"], capture_output=True, text=True, check=False
        )
    finished, counts = FINISHED.search(h2load.stdout), COUNTS.search(h2load.stdout)
    if finished is None or counts is None:
        raise LoadError(
            f"h2load ended with {h2load.returncode} and no report: {(h2load.stderr or h2load.stdout)[-300:]}"
        )
    good, *bad = map(int, counts.groups())
    return LoadResult(connections, good, sum(bad), float(finished[2]), 0, 0, 0)
