"""What the comparison may be asked for, and the words for what it may not."""

import pytest

from benchmarks.comparisons.run import parse_arguments


def test_what_is_asked_for() -> None:
    asked = parse_arguments(["--models", "mlp", "--connections", "8,1,8", "--duration", "500ms", "--turns", "2"])
    assert (asked.models, asked.connections, asked.duration, asked.turns) == (("mlp",), (1, 8), 0.5, 2)


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--duration", "0"], "0: write a duration above 0, such as 2s"),
        (["--duration", "long"], "expected a duration such as 30s"),
        (["--turns", "0"], "0: write 1 or more"),
        (["--connections", "8,0"], "0: write 1 or more"),
        (["--peers", "nobody"], "'nobody': choose from guepard"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: list[str], refusal: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(words)
    assert refusal in capsys.readouterr().err
