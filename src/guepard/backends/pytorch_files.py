"""What a file of PyTorch holds, found out without running or unpickling anything of it.

TorchScript archives and exported programs are programs, and `torch.export.load` may unpickle: PyTorch says of both that
they are to be trusted as code is. So all of them are loaded only if the operator trusts them. Weights alone are data.

Source: PyTorch, SECURITY.md ("TorchScript models") and the warning of `torch.export.load`.
"""

import pickletools
import zipfile
from pathlib import Path
from typing import IO, Literal

from guepard.core.errors import LoadError

FileKind = Literal["torchscript", "exported", "module", "weights"]

# What pickled weights refer to, and nothing else does.
_OF_WEIGHTS = (
    "torch._utils",
    "torch._tensor",
    "torch.storage",
    "torch.serialization",
    "collections",
    "numpy",
    "_codecs",
)
_STRINGS = ("SHORT_BINUNICODE", "BINUNICODE", "UNICODE")
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_MOST_OPERATIONS = 5_000_000


def kind_of(path: Path) -> FileKind:
    """By its content; a `.safetensors` file by its name. Raises: LoadError for what is damaged or something else."""
    if path.suffix == ".safetensors":
        return "weights"
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return _kind_of_archive(archive, path.name)
        with path.open("rb") as file:
            if file.read(2) in _PICKLES:  # as torch.save wrote until 1.6
                file.seek(0)
                return _kind_of_pickles(file)
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise damaged(path, str(error)) from None
    except OSError as error:
        raise LoadError(f"{path.name} cannot be read: {error.strerror}") from None
    raise damaged(path, "it is neither an archive nor a pickle of PyTorch")


def damaged(path: Path, why: str = "") -> LoadError:
    reason = f" ({why})" if why and str(path.parent) not in why else ""
    return LoadError(f"{path.name} is not a PyTorch model: the file is damaged, cut short or of another format{reason}")


def _kind_of_archive(archive: zipfile.ZipFile, name: str) -> FileKind:
    inside = [entry.partition("/")[2] for entry in archive.namelist()]
    if any(entry.startswith("data/aotinductor/") for entry in inside):
        raise LoadError(
            f"{name} was compiled by AOTInductor, which this version does not load; save the exported program itself "
            "with torch.export.save"
        )
    if "serialized_exported_program.json" in archive.namelist():
        raise LoadError(f"{name} was exported by a PyTorch before 2.6; export it again with torch.export.save")
    if any(entry.startswith("models/") and entry.endswith(".json") for entry in inside):
        return "exported"
    if "constants.pkl" in inside and any(entry.startswith("code/") for entry in inside):
        return "torchscript"
    pickled = next((each for each, entry in zip(archive.namelist(), inside, strict=True) if entry == "data.pkl"), None)
    if pickled is None:
        raise LoadError(f"{name} is an archive, but none of PyTorch's; name the model file itself")
    with archive.open(pickled) as file:
        return _kind_of_pickles(file)


def _kind_of_pickles(file: IO[bytes]) -> FileKind:
    """Of one pickle or several in a row: do they name classes that weights do not need?"""
    head = file.read(2)
    while head in _PICKLES:
        file.seek(-2, 1)
        if not all(_is_of_weights(module) for module in _modules(file)):
            return "module"
        head = file.read(2)
    return "weights"


def _modules(file: IO[bytes]) -> set[str]:
    """The modules whose names the pickle at the file's place looks up. Nothing is imported or called."""
    found: set[str] = set()
    strings: list[str] = []
    for count, (operation, argument, _) in enumerate(pickletools.genops(file)):
        if count > _MOST_OPERATIONS:
            raise ValueError("its pickle is too long to be looked through")
        if operation.name == "GLOBAL":
            found.add(str(argument).partition(" ")[0])
        elif operation.name in _STRINGS:
            strings.append(str(argument))
        elif operation.name == "STACK_GLOBAL":
            found.add(strings[-2] if len(strings) > 1 else "?")
    return found


def _is_of_weights(module: str) -> bool:
    return module == "torch" or module.startswith(_OF_WEIGHTS)
