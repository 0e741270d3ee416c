"""What the comparison knows of a server: how it is installed, started and asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.comparisons.assignment import Assignment
from benchmarks.comparisons.form import Form
from benchmarks.comparisons.setting import Settings

PEERS_FOLDER = Path(__file__).parent / "peers"


def _nothing(assignment: Assignment, folder: Path) -> None:
    pass


def _no_variables(assignment: Assignment, folder: Path) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    name: str
    """Of its folder."""
    title: str
    package: str
    """Whose version is told."""
    home: str
    """Where its documents are."""
    set_up: str
    """How it is run, in words for the page."""
    forms: tuple[Form, ...]
    command: Callable[[Assignment, Path], list[str]]
    """From the assignment and a scratch folder of the server's own. The first word is a program of its environment."""
    settings: Settings = field(default_factory=Settings)
    prepare: Callable[[Assignment, Path], None] = _nothing
    """Writes files into the folder before the start is timed."""
    variables: Callable[[Assignment, Path], Mapping[str, str]] = _no_variables
    python: str = ""
    """The interpreter that its environment needs; empty for the one that runs the comparison."""
    programs: tuple[str, ...] = ()
    """That must be installed beside it, and pip does not bring."""
    is_form_at_start: bool = False
    """A form needs worker processes of its own, so it is started for one form at a time."""
    is_own: bool = False
    """Runs in the environment of the comparison itself."""
    min_cosine: float | None = None
    """Of its answer with the engine's; None: they are the same to three digits."""

    @property
    def requirements(self) -> Path:
        return PEERS_FOLDER / self.name / "requirements.txt"
