"""`limits/admission.py`."""

from benchmarks.micro.timing.case import Case
from guepard.limits.admission import Admission


def cases() -> list[Case]:
    admission = Admission(2**30)

    def take_and_give_back() -> None:
        admission.acquire(300)
        admission.release(300)

    return [Case("a body", take_and_give_back)]
