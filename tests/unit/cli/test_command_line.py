"""`guepard`: verbs, exit codes, what is said where. The server itself is not started here."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from guepard import __version__
from guepard.cli.main import VERBS, find_verb, main, verb_parser
from guepard.cli.reference import command_line_page
from guepard.cli.switches import given
from guepard.settings.bench_options import BenchOptions
from guepard.settings.bench_reading import BENCH_BY_KEY, BENCH_SWITCHES, read_bench_options
from guepard.settings.switches import SWITCHES

COMMAND_LINE = Path(__file__).parents[3] / "docs" / "reference" / "command-line.md"
HEAVY = {"numpy", "onnxruntime", "yaml", "uvloop", "asyncio", "orjson", "httptools", "prometheus_client"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with one model in it and nothing of ours in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in [*os.environ]:
        if name.startswith(("GUEPARD_", "KUBERNETES_")):
            monkeypatch.delenv(name)
    (tmp_path / "model.onnx").touch()
    return tmp_path


def imports_of(*words: str) -> set[str]:
    """Top-level packages that the command imports, in a process of its own."""
    code = (
        "import sys; from guepard.cli.main import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["bench", "--help"], ["version"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    imported = imports_of(*words)
    assert "guepard" in imported
    assert not imported & HEAVY


def test_help_of_the_whole_needs_no_settings() -> None:
    assert "msgspec" not in imports_of("--help")


def test_the_overview_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    for verb in VERBS:
        assert f"\n  {verb} " in printed


def test_help_of_serve_names_every_switch_and_ends_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve", "--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for switch in SWITCHES:
        assert switch.flag in printed
        assert switch.environment in printed
    assert "curl" in printed.partition("example:")[2]


def test_help_of_bench_names_every_switch_the_exit_codes_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for switch in BENCH_SWITCHES:
        assert switch.flag in printed
        assert switch.environment not in printed
    assert "1 the work failed" in printed.partition("exit codes:")[2]
    assert printed.partition("examples:")[2].count("guepard bench") >= 5


def test_every_example_of_bench_is_right() -> None:
    parser = verb_parser("bench", find_verb("bench"))
    lines = [line for line in str(parser.epilog).splitlines() if line.startswith("    guepard bench")]
    assert lines
    for line in lines:
        arguments = parser.parse(shlex.split(line)[2:])
        read_bench_options(arguments.target, given(arguments, BENCH_BY_KEY))


def test_bench_hands_on_its_options_and_its_command_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    called: dict[str, Any] = {}

    def run(options: BenchOptions, **handed: object) -> int:
        called.update(handed, options=options)
        return 1

    stand_in = ModuleType("guepard.bench.run")
    monkeypatch.setattr(stand_in, "run", run, raising=False)
    monkeypatch.setitem(sys.modules, "guepard.bench.run", stand_in)
    words = ["bench", "--rate", "10", "http://localhost:8000", "--header", "Authorization: s3cret", "--json"]
    assert main(words) == 1
    assert called["options"].load.rate == 10
    assert called["options"].request.header == ("Authorization: s3cret",)
    assert called["options"].output.json is True
    assert called["command"] == ("guepard", *words[:5], "Authorization: [hidden]", "--json")
    assert (called["stdout"], called["stderr"]) == (sys.stdout, sys.stderr)


def test_the_committed_page_is_current() -> None:
    assert COMMAND_LINE.read_text() == command_line_page(), "run: python -m guepard.cli.reference"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"guepard {__version__} (python ")
    assert main(["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["guepard"] == __version__
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"guepard {__version__}\n"


def test_an_interrupt_before_the_work_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(arguments: object, started_ns: int) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("guepard.cli.version.run", interrupt)
    assert main(["version"]) == 130


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        ([], "name a verb: serve, bench, version"),
        (["serv"], "did you mean serve?"),
        (["model.onnx"], "did you mean guepard serve model.onnx?"),
        (["zzz"], "the verbs are serve, bench, version"),
        (["serve", "--http-prot", "1"], "did you mean --http-port?"),
        (["serve", "--http-port"], "expected one argument"),
        (["serve", "--http-port", "x", "model.onnx"], "--http-port: expected an integer"),
        (["serve", "--workers=2", "model.onnx"], "this version serves with one worker"),
        (["serve"], "no model to serve"),
        (["serve", "modle.onnx"], "did you mean"),
        (["serve", "--json", "model.onnx"], "--json goes with --check"),
        (["serve", "--config", "none.yaml"], "none.yaml: no such file"),
        (["bench"], "name what to measure: a URL, a MODEL, --curl or --openapi"),
        (["bench", "http://localhost", "--rate", "5", "--concurrency", "5"], "--rate and --concurrency: "),
        (["bench", "http://localhost", "--find", "p99=50ms"], "did you mean --find-max?"),
        (["version", "now"], "now: not known to guepard version"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_wrong_usage_is_2_and_one_line(words: list[str], fragment: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("guepard: error: ")
    assert printed.err.count("\n") == 1
    assert fragment in printed.err


@pytest.mark.usefixtures("folder")
def test_check_says_what_would_be_served(capsys: pytest.CaptureFixture[str]) -> None:
    # Options may stand between models.
    assert main(["serve", "a=model.onnx", "--http-port", "9000", "b=model.onnx", "--check", "--no-trust"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert "port 9000" in lines[1]
    assert lines[2].split() == ["gRPC", "port", "8001"]
    assert [line.split()[0] for line in lines[4:]] == ["model", "a", "b"]
    assert printed.err == ""


def test_check_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "repository/found/1").mkdir(parents=True)
    words = ["serve", "model.onnx", "repository", "--host", "0.0.0.0", "--auth-anonymous", "manage,observe"]
    assert main([*words, "--check", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["valid"] is True
    assert document["settings"]["server"]["keep_alive"] == "75s"
    assert [model["name"] for model in document["settings"]["models"]] == ["model", "found"]
    assert any("load and unload" in warning for warning in document["warnings"])


def test_check_finds_what_would_not_load(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("repository/one/1", "repository/bad name/1", "coded"):
        (folder / path).mkdir(parents=True)
    (folder / "coded/model.py").touch()
    (folder / "guepard.yaml").write_text(
        "models: [{name: gone, path: gone.onnx}, {name: many, path: repository}, {name: coded, path: coded}]\n"
        "model_repository: [repository]"
    )
    assert main(["serve", "--check"]) == 2
    printed = capsys.readouterr()
    assert "gone.onnx: no such file or folder" in printed.err
    assert "holds several models; name the folder under model_repository" in printed.err
    assert "Python code, which runs only with trust: true or --trust" in printed.err
    assert "'bad name' is not a model name" in printed.err
    assert main(["serve", "--check", "--trust", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["valid"] is False
    assert not any("Python code" in error for error in document["errors"])


def test_check_as_json_of_a_broken_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "guepard.yaml").write_text("sever: {}")
    assert main(["serve", "--check", "--json"]) == 2
    printed = capsys.readouterr()
    (error,) = json.loads(printed.out)["errors"]
    assert error == "guepard.yaml: sever: no such option; did you mean server?"
    assert error in printed.err


@pytest.mark.usefixtures("folder")
def test_the_environment_reaches_the_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GUEPARD_HTTP_PORT", "7000")
    assert main(["serve", "model.onnx", "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["server"]["http_port"] == 7000


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ("preprocess: [{resize: {size: 8, crop: 4}}]", "m: preprocess[0]: resize.crop: `mode: exact` leaves nothing"),
        ("postprocess: [argmax, {labels: {file: x}}]", "m: postprocess[1]: labels.file: there is no file 'x'"),
    ],
)
def test_check_makes_the_steps_around_a_model(
    folder: Path, capsys: pytest.CaptureFixture[str], steps: str, reason: str
) -> None:
    (folder / "guepard.yaml").write_text(f"models: [{{name: m, path: model.onnx, {steps}}}]")
    assert main(["serve", "--check"]) == 2
    assert f"guepard: error: {reason}" in capsys.readouterr().err
