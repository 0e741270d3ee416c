"""Result files: what is written is read back, and whatever else is read gets an answer that helps."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from guepard.core.errors import ConfigurationError
from guepard.measure import result_file
from guepard.measure.results import VERSION, Document
from tests.services import result_documents


def changed(**fields: object) -> bytes:
    """A result whose top level says something else."""
    return json.dumps(json.loads(result_file.to_json(result_documents.tiny())) | fields).encode()


@pytest.mark.parametrize("build", result_documents.BUILDERS.values(), ids=result_documents.BUILDERS)
def test_what_is_written_is_read_back(build: Callable[[], Document], tmp_path: Path) -> None:
    document = build()
    result_file.write(document, tmp_path / "result.json")
    assert result_file.read(tmp_path / "result.json") == document


def test_the_file_is_json_with_a_field_a_line(tmp_path: Path) -> None:
    result_file.write(result_documents.tiny(), tmp_path / "result.json")
    lines = (tmp_path / "result.json").read_text().splitlines()
    assert '  "format": "guepard-bench",' in lines
    assert json.loads("\n".join(lines))["version"] == VERSION


def test_a_script_element_holds_the_result_and_nothing_in_it_ends_it() -> None:
    document = result_documents.hostile()
    script = result_file.to_script(document)
    assert script.count(b"</script>") == 1
    assert b"<!--" not in script
    assert result_file.parse(b"<!doctype html><p>a report</p>" + script + b"<p>more</p>", "report.html") == document


def test_fields_of_a_later_guepard_in_the_same_format_are_passed_over() -> None:
    machine = {"cpu": "x", "cores": 1, "cpu_budget": 1.0, "memory_bytes": 1, "system": "s", "gpu": "y"}
    data = changed(colour="green", machine=machine)
    assert result_file.parse(data, "result.json").machine.cpu == "x"


def test_a_file_of_a_newer_version_says_who_wrote_it_who_reads_it_and_what_to_do() -> None:
    with pytest.raises(ConfigurationError) as refused:
        result_file.parse(changed(version=VERSION + 1, guepard="9.8.7", runs="in another form"), "base.json")
    text = str(refused.value)
    for words in ("base.json", "9.8.7", f"version {VERSION + 1}", f"version {VERSION}", "upgrade", "again"):
        assert words in text


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"latency 12 ms\n", "not JSON"),
        (b"[1, 2]", "no result"),
        (b'{"models": []}', "no result"),
        (b'{"format": "guepard-bench", "version": "new"}', "no result"),
        (b"\xff\xfe{\x00", "not JSON"),
        (b"<!doctype html><h1>Triton</h1>", "web page without a result"),
        (changed(version=0), "version 0"),
        (changed(runs=3), "$.runs"),
        (result_file.to_json(result_documents.tiny())[:-900], "torn"),
        (result_file.to_script(result_documents.tiny())[:-900], "torn"),
    ],
)
def test_what_is_no_result_is_refused_with_its_name_and_the_reason(data: bytes, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        result_file.parse(data, "some.file")
    assert "some.file" in str(refused.value)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_file_that_is_not_there_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.json: No such file"):
        result_file.read(tmp_path / "nowhere.json")
    with pytest.raises(ConfigurationError, match="cannot read"):
        result_file.read(tmp_path)


def test_figures_of_numpy_are_written_as_figures() -> None:
    document = result_documents.tiny()
    run = msgspec.structs.replace(document.runs[0], offered_rate=np.float64(2.5), shed=np.int64(3))
    again = result_file.parse(result_file.to_json(msgspec.structs.replace(document, runs=(run,))), "x")
    assert (again.runs[0].offered_rate, again.runs[0].shed) == (2.5, 3)


def test_what_is_no_figure_at_all_is_not_written() -> None:
    with pytest.raises(TypeError, match="cannot hold object"):
        result_file.to_json(msgspec.structs.replace(result_documents.tiny(), extra={"x": object()}))


def test_words_of_a_command_that_are_no_text_do_not_lose_the_result() -> None:
    document = msgspec.structs.replace(result_documents.tiny(), command=("guepard", "caf\udce9"))
    assert result_file.parse(result_file.to_json(document), "x").command == ("guepard", "caf?")
