"""Which tensor a step is about, where it is about one."""

from collections.abc import Callable, Sequence

from guepard.core.errors import LoadError
from guepard.core.tensor import TensorSpec


def find_tensor(
    step: str, word: str, name: str | None, specs: Sequence[TensorSpec], fits: Callable[[TensorSpec], bool], what: str
) -> int:
    """The place in `specs` of the tensor called `name`, or of the only one that `fits`; `what` says what fits.

    `word` is the option that names it: input or output. Raises: LoadError.
    """
    names = ", ".join(repr(spec.name) for spec in specs)
    if name is not None:
        for place, spec in enumerate(specs):
            if spec.name == name:
                if not fits(spec):
                    raise LoadError(f"{step}: {word} {name!r} is {spec}, and the step takes {what}")
                return place
        raise LoadError(f"{step}: there is no {word} {name!r}; there are {names}")
    places = [place for place, spec in enumerate(specs) if fits(spec)]
    if len(places) == 1:
        return places[0]
    if not places:
        raise LoadError(f"{step}: none of the {word}s {names} is {what}, which the step takes")
    several = ", ".join(repr(specs[place].name) for place in places)
    raise LoadError(f"{step}: {several} all are {what}; say by `{word}` which one is meant")


def replaced(specs: Sequence[TensorSpec], place: int, *new: TensorSpec) -> tuple[TensorSpec, ...]:
    """`specs` with those of `new` in the stead of the one at `place`."""
    return (*specs[:place], *new, *specs[place + 1 :])
