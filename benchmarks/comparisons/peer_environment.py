"""An environment for each peer, made once under benchmarks/.cache/peers."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from benchmarks.comparisons.peer import Peer
from benchmarks.models import CACHE

FOLDER = CACHE / "peers"
_VERSIONS = """\
import json, platform
from importlib.metadata import distributions
found = {each.metadata["Name"].lower(): each.version for each in distributions()}
print(json.dumps({"python": platform.python_version(), **dict(sorted(found.items()))}))
"""


class NotInstalled(RuntimeError):
    """The environment could not be made, or a program is missing."""


@dataclass(frozen=True, slots=True)
class PeerEnvironment:
    bin: Path
    versions: dict[str, str]
    """Of Python and of every package in it."""


def environment_of(peer: Peer) -> PeerEnvironment:
    """Made now if need be. Raises: NotInstalled. Cost: up to some minutes the first time."""
    for program in peer.programs:
        if shutil.which(program) is None:
            raise NotInstalled(f"the program {program!r} is not installed")
    folder = Path(sys.prefix) if peer.is_own else FOLDER / peer.name
    if not peer.is_own:
        _make(peer, folder)
    told = _run([str(folder / "bin" / "python"), "-c", _VERSIONS])
    return PeerEnvironment(folder / "bin", json.loads(told))


def _make(peer: Peer, folder: Path) -> None:
    digest = sha256(peer.requirements.read_bytes() + peer.python.encode()).hexdigest()
    python, stamp = folder / "bin" / "python", folder / "requirements.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    interpreter = peer.python or sys.executable
    if shutil.which(interpreter) is None:
        raise NotInstalled(f"it needs {interpreter}, which is not here")
    print(f"installing {peer.title}, once ...", file=sys.stderr, flush=True)
    _run([interpreter, "-m", "venv", "--clear", str(folder)])
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*install, "-r", str(peer.requirements)])
    stamp.write_text(digest)


def _run(command: list[str]) -> str:
    """What it prints. Raises: NotInstalled with the end of its complaint."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalled((done.stderr.strip() or done.stdout.strip())[-600:])
    return done.stdout
