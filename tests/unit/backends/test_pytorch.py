"""Models of PyTorch: what loads, what is refused, what comes out."""

import os
import pickle
import re
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from guepard.core.errors import InputError, LoadError, ModelError
from guepard.core.tensor import TensorSpec
from guepard.engine.warmup import warm_up
from tests.services.torch_models import (
    FACTORY,
    Linear,
    Named,
    Writing,
    X,
    Y,
    load,
    save_exported,
    save_script,
)

ONES = np.ones((2, 4), np.float32)
EXPECTED = np.full((2, 3), 2, np.float32)


def run(model: Any, *inputs: Any) -> Any:
    return model.executor().execute(inputs, ())


def write_factory(folder: Path) -> Path:
    (folder / "net.py").write_text(FACTORY)
    return folder


def test_an_exported_program_says_what_it_takes_and_gives(tmp_path: Path) -> None:
    model = load(save_exported(tmp_path / "model.pt2", Named(), (torch.zeros(2, 4), torch.zeros(2, 4))))
    assert model.description.inputs == (TensorSpec("a", "FP32", [4]), TensorSpec("b", "FP32", [4]))
    assert model.description.outputs == (TensorSpec("sum", "FP32", [4]), TensorSpec("difference", "FP32", [4]))
    assert (model.description.max_batch_size, model.description.batch_verified) == (64, False)
    assert (model.description.engine, model.description.precision) == ("pytorch", "f32")
    total, difference = run(model, ONES * 3, ONES)
    np.testing.assert_array_equal(total, ONES * 4)
    np.testing.assert_array_equal(difference, ONES * 2)


def test_an_exported_program_of_one_size_takes_no_batches(tmp_path: Path) -> None:
    path = save_exported(tmp_path / "model.pt2", free=False)
    assert load(path).description.max_batch_size == 0
    assert load(path).description.inputs == (TensorSpec("x", "FP32", [2, 4]),)
    with pytest.raises(LoadError, match=r"max_batch_size is 8, but the first dimension of tensor 'x' is not free"):
        load(path, max_batch_size=8)


def test_an_exported_program_may_have_another_suffix(tmp_path: Path) -> None:
    file = save_exported(tmp_path / "net.pt2").rename(tmp_path / "net.pt")
    assert [spec.name for spec in load(file).description.inputs] == ["x"]


def test_a_damaged_program_with_names_that_lead_outside_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "net.pt2"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {"archive_format": "pt2", "archive_version": "0", "models/model.json": "{}"}.items():
            archive.writestr(f"net/{name}", content)
        archive.writestr("net/../../evil.py", "evil")
    with pytest.raises(LoadError, match=r"net\.pt2 is not a PyTorch model: the file is damaged"):
        load(file)
    assert not list(tmp_path.parent.rglob("evil.py"))


def test_the_bound_of_an_export_bounds_batches(tmp_path: Path) -> None:
    exported = torch.export.export(Linear(), (torch.zeros(2, 4),), dynamic_shapes=({0: torch.export.Dim("n", max=16)},))
    torch.export.save(exported, tmp_path / "model.pt2")
    assert load(tmp_path / "model.pt2").description.max_batch_size == 16
    with pytest.raises(LoadError, match="exported for batches of at most 16"):
        load(tmp_path / "model.pt2", max_batch_size=32)


def test_an_exported_program_needs_no_declarations(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="an exported program says them itself"):
        load(save_exported(tmp_path / "model.pt2"), inputs=X)


def test_an_exported_program_that_changes_itself_is_refused(tmp_path: Path) -> None:
    counting = torch.nn.BatchNorm1d(4).train()
    exported = torch.export.export(counting, (torch.zeros(2, 4),))
    torch.export.save(exported, tmp_path / "model.pt2")
    with pytest.raises(LoadError, match=r"changes its own state \(.*\) in every run.*call eval\(\)"):
        load(tmp_path / "model.pt2")


def test_torchscript_is_declared_and_its_outputs_are_found_out(tmp_path: Path) -> None:
    model = load(save_script(tmp_path / "model.pt"), inputs=X)
    assert model.description.inputs == X
    assert model.description.outputs == Y
    np.testing.assert_array_equal(run(model, ONES)[0], EXPECTED)


def test_torchscript_without_declarations_is_refused_with_lines_to_paste(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"inputs: \[\{name: a, datatype: FP32, dims: \[-1\]\}, \{name: b, "):
        load(save_script(tmp_path / "model.pt", Named()))


@pytest.mark.parametrize(
    ("names", "expected"),
    [(("a", "b"), 2), (("b", "a"), -2), (("INPUT__0", "INPUT__1"), 2), (("in__1", "in__0"), -2), (("p", "q"), 2)],
)
def test_inputs_go_by_name_by_number_or_in_order(tmp_path: Path, names: tuple[str, ...], expected: int) -> None:
    declared = tuple(TensorSpec(name, "FP32", [4]) for name in names)
    difference = (TensorSpec("difference", "FP32", [4]),)
    model = load(save_script(tmp_path / "model.pt", Named()), inputs=declared, outputs=difference)
    np.testing.assert_array_equal(run(model, ONES * 3, ONES)[0], ONES * expected)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("a", "c"), "input 'c' is declared, but model.pt takes a, b"),
        (("a",), "also takes b"),
        (("INPUT__0", "INPUT__2"), r"2 inputs are declared \(INPUT__0, INPUT__2\), but model.pt takes a, b"),
    ],
)
def test_declared_inputs_that_do_not_fit_are_named(tmp_path: Path, names: tuple[str, ...], reason: str) -> None:
    declared = tuple(TensorSpec(name, "FP32", [4]) for name in names)
    with pytest.raises(LoadError, match=reason):
        load(save_script(tmp_path / "model.pt", Named()), inputs=declared)


def test_a_free_dimension_of_an_output_is_found_out(tmp_path: Path) -> None:
    path = save_script(tmp_path / "model.pt", torch.nn.Sequential(torch.nn.ReLU()))
    model = load(path, inputs=(TensorSpec("input", "FP32", [-1, 3]),))
    assert model.description.outputs == (TensorSpec("OUTPUT__0", "FP32", [-1, 3]),)


def test_outputs_that_cannot_be_found_out_are_to_be_declared(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"refused each sample.*outputs: \["):
        load(save_script(tmp_path / "model.pt"), inputs=(TensorSpec("x", "FP32", [5]),))


def test_a_factory_builds_what_weights_go_into(tmp_path: Path) -> None:
    torch.save(Linear().layer.state_dict(), tmp_path / "linear.pth")
    model = load(write_factory(tmp_path), inputs=X, factory="net.py:build", weights="linear.pth")
    assert model.description.outputs == Y
    np.testing.assert_array_equal(run(model, ONES)[0], EXPECTED)


def test_the_file_that_is_served_is_the_weights(tmp_path: Path) -> None:
    torch.save({"state_dict": Linear().layer.state_dict(), "epoch": 3}, tmp_path / "linear.pth")
    write_factory(tmp_path)
    model = load(tmp_path / "linear.pth", inputs=X, factory="net.py:build")
    np.testing.assert_array_equal(run(model, ONES)[0], EXPECTED)


def test_weights_may_be_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file(Linear().layer.state_dict(), tmp_path / "model.safetensors")
    model = load(write_factory(tmp_path), inputs=X, factory="net.py:build", weights="model.safetensors")
    np.testing.assert_array_equal(run(model, ONES)[0], EXPECTED)


def test_a_factory_is_given_the_parameters(tmp_path: Path) -> None:
    model = load(write_factory(tmp_path) / "net.py", entry="build", inputs=X, parameters={"width": "7"})
    assert model.description.outputs[0].dims == (7,)


def test_a_factory_of_guepard_itself_needs_no_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import guepard.formats.base as home

    seen: list[Any] = []

    def build(*given: Any) -> Linear:
        seen.append(given)
        return Linear()

    monkeypatch.setattr(home, "build", build, raising=False)
    model = load(
        tmp_path,
        factory="guepard.formats.base:build",
        factory_parameters={"task": "t"},
        trusted=False,
        inputs=X,
        outputs=Y,
    )
    assert seen == [(tmp_path, {"task": "t"})]
    np.testing.assert_array_equal(run(model, ONES)[0], EXPECTED)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"factory": "net.py:build"}, r"the module is Python code.*inputs: \[\{name: input, "),
        ({"factory": "net.py:missing", "inputs": X}, "net.py has no function 'missing'"),
        ({"factory": "net.py:nothing", "inputs": X}, "nothing returned int"),
        ({"factory": "net.py:broken", "inputs": X}, "net.py:broken failed: it raised ValueError; the server's log"),
        ({"factory": "other.py:build", "inputs": X}, "no file 'other.py' in the model's folder"),
        ({"factory": "../net.py:build", "inputs": X}, "lies outside of the model's folder"),
        ({"factory": "no_such_package:build", "inputs": X}, "there is no module named 'no_such_package'"),
        ({"factory": "build", "inputs": X}, "write FILE.py:FUNCTION"),
        ({"factory": "net.py:build", "inputs": X, "weights": "a.pth"}, "no file 'a.pth'"),
        (
            {"factory": "net.py:build", "inputs": X, "weights": "other.pth"},
            r"lacks weights of the module.*: weight, bias",
        ),
        ({"factory": "net.py:build", "inputs": X, "weights": "wide.pth"}, "have other shapes"),
        ({"factory": "net.py:build", "inputs": X, "weights": "cut.pth"}, "damaged"),
        ({"factory": "net.py:build", "inputs": X, "weights": "whole.pth"}, r"holds a whole model \(module\)"),
        ({"factory": "net.py:build", "inputs": X, "trusted": False}, "--trust"),
    ],
)
def test_factories_and_weights_that_do_not_go_say_why(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "net.py").write_text(FACTORY)
    write_factory(folder)
    torch.save({"other": torch.zeros(1)}, folder / "other.pth")
    torch.save(torch.nn.Linear(5, 5).state_dict(), folder / "wide.pth")
    torch.save(torch.nn.Linear(4, 3), folder / "whole.pth")
    (folder / "cut.pth").write_bytes((folder / "wide.pth").read_bytes()[:200])
    with pytest.raises(LoadError, match=reason) as caught:
        load(folder, **options)
    assert "secret" not in str(caught.value)


def test_weights_alone_are_refused_with_how_to_serve_them(tmp_path: Path) -> None:
    torch.save(Linear().state_dict(), tmp_path / "linear.pth")
    with pytest.raises(LoadError, match=r"holds weights only.*pytorch: \{factory: net.py:build\}"):
        load(tmp_path / "linear.pth", trusted=False)


def test_a_pickled_module_is_code(tmp_path: Path) -> None:
    torch.save(torch.nn.Sequential(Linear()), tmp_path / "model.pt")
    with pytest.raises(LoadError, match=r"pickled as a whole.*torch\.export, or start with --trust"):
        load(tmp_path, trusted=False, inputs=X)
    np.testing.assert_array_equal(run(load(tmp_path, inputs=X), ONES)[0], EXPECTED)


@pytest.mark.parametrize("save", [save_script, save_exported])
def test_programs_are_loaded_only_if_trusted(tmp_path: Path, save: Any) -> None:
    with pytest.raises(LoadError, match=r"is a program.*--trust or set trust: true"):
        load(save(tmp_path / "model.pt"), trusted=False)


@pytest.mark.parametrize("save", [save_script, save_exported])
def test_damaged_files_are_refused(tmp_path: Path, save: Any) -> None:
    data = save(tmp_path / "whole.pt").read_bytes()
    for number, content in enumerate((b"", b"hello " * 40, data[: len(data) // 2], b"\x80\x02garbage")):
        path = tmp_path / f"model{number}.pt"
        path.write_bytes(content)
        with pytest.raises(LoadError) as caught:
            load(path, inputs=X if save is save_script else ())
        assert str(tmp_path) not in str(caught.value)


def test_archives_of_others_are_told_apart(tmp_path: Path) -> None:
    for name, entry, reason in (
        ("a.pt", "1/model.onnx", "an archive, but none of PyTorch's"),
        ("b.pt2", "b/data/aotinductor/model/code.so", "compiled by AOTInductor"),
        ("c.pt2", "serialized_exported_program.json", "exported by a PyTorch before 2.6"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(entry, b"")
        with pytest.raises(LoadError, match=reason):
            load(tmp_path / name)


def test_nothing_is_unpickled_to_see_what_a_file_holds(tmp_path: Path) -> None:
    for protocol in (2, 4):
        (tmp_path / "model.pt").write_bytes(pickle.dumps(Canary(tmp_path / "canary"), protocol))
        with pytest.raises(LoadError, match="a module that was pickled as a whole"):
            load(tmp_path / "model.pt", trusted=False)
    assert not (tmp_path / "canary").exists()


class Canary:
    """Unpickling an instance creates the file at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return os.open, (str(self.path), os.O_CREAT | os.O_WRONLY)


@pytest.mark.parametrize("save", [save_script, save_exported])
def test_what_a_model_writes_into_its_input_stays_with_it(tmp_path: Path, save: Any) -> None:
    model = load(save(tmp_path / "model.pt", Writing()), inputs=X if save is save_script else ())
    given = ONES.copy()
    given.flags.writeable = False
    np.testing.assert_array_equal(run(model, given)[0], ONES * 2)
    np.testing.assert_array_equal(given, ONES)


def test_an_output_that_the_module_keeps_is_handed_over_as_a_copy(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Counting(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.register_buffer('seen', torch.zeros(1, 4))\n"
        "    def forward(self, x):\n"
        "        self.seen.add_(x)\n"
        "        return self.seen\n"
        "def build(path, parameters):\n"
        "    return Counting()\n"
    )
    model = load(tmp_path, factory="net.py:build", inputs=X, outputs=(TensorSpec("seen", "FP32", [4]),))
    (first,) = run(model, ONES[:1])
    (second,) = run(model, ONES[:1])
    np.testing.assert_array_equal([first, second], [ONES[:1], ONES[:1] * 2])


@pytest.mark.parametrize(
    "datatype",
    ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BF16"],
)
def test_each_datatype_travels_both_ways(tmp_path: Path, datatype: str) -> None:
    (tmp_path / "net.py").write_text("import torch\ndef build(path, parameters):\n    return torch.nn.Identity()\n")
    spec = TensorSpec("input", datatype, [4])
    model = load(tmp_path, factory="net.py:build", inputs=(spec,))
    assert model.description.outputs == (TensorSpec("OUTPUT__0", datatype, [4]),)
    values = np.arange(8).reshape(2, 4).astype(spec.datatype.dtype)
    (found,) = run(model, values[::-1])
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values[::-1])


def test_text_cannot_be_declared(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="'x' is declared as BYTES"):
        load(save_script(tmp_path / "model.pt"), inputs=(TensorSpec("x", "BYTES", [4]),))


def test_an_output_of_another_type_than_declared_is_the_models_fault(tmp_path: Path) -> None:
    model = load(save_script(tmp_path / "model.pt"), inputs=X, outputs=(TensorSpec("y", "INT64", [3]),))
    with pytest.raises(ModelError, match="returned output 'y' as FP32, and it is declared INT64"):
        run(model, ONES)


def test_an_index_out_of_range_is_the_callers_fault(tmp_path: Path) -> None:
    path = save_script(tmp_path / "model.pt", torch.nn.Embedding(10, 4))
    model = load(path, inputs=(TensorSpec("input", "INT64", [2]),))
    with pytest.raises(InputError, match="an index is outside of the range"):
        run(model, np.full((1, 2), 99))


@pytest.mark.parametrize(("dims", "error"), [([-1], InputError), ([4], ModelError)])
def test_shapes_are_the_callers_fault_where_they_are_the_callers_choice(
    tmp_path: Path, dims: list[int], error: type[Exception]
) -> None:
    model = load(save_script(tmp_path / "model.pt"), inputs=(TensorSpec("x", "FP32", dims),), outputs=Y)
    with pytest.raises(error) as caught:
        run(model, np.ones((1, 5), np.float32))
    assert "torch" not in str(caught.value).lower()


def test_rows_are_tried_for_independence(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Mean(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x - x.mean(0)\n"
        "def build(path, parameters):\n"
        "    return Mean()\n"
    )
    for max_batch_size in (None, 8):
        model = load(tmp_path, factory="net.py:build", inputs=X, max_batch_size=max_batch_size)
        assert warm_up("net", model.executor(), model.description, 8).rows_independent is False


def test_how_long_python_holds_the_interpreter_is_measured(tmp_path: Path) -> None:
    exported = load(save_exported(tmp_path / "model.pt2"))
    script = load(save_script(tmp_path / "model.pt"), inputs=X)
    assert warm_up("net", exported.executor(), exported.description, 8).hold is not None
    assert warm_up("net", script.executor(), script.description, 8).hold is None


@pytest.mark.parametrize("save", [save_script, save_exported])
def test_bf16_is_computed_in_and_does_not_show_in_the_outputs(
    tmp_path: Path, save: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    model = load(save(tmp_path / "model.pt"), inputs=X if save is save_script else (), precision="bf16")
    (found,) = run(model, ONES + 2**-10)  # more digits than BF16 has
    assert model.description.precision == "bf16"
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, EXPECTED)


def test_precisions_that_do_not_pay_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_exported(tmp_path / "model.pt2")
    with pytest.raises(LoadError, match="precision: f16 is slower than f32"):
        load(path, precision="f16")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    with pytest.raises(LoadError, match="precision: bf16 needs a CPU with instructions for it"):
        load(path, precision="bf16")


def test_compiling_needs_a_form_and_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LoadError, match="TorchScript cannot be compiled"):
        load(save_script(tmp_path / "model.pt"), inputs=X, compile=True)
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(LoadError, match=r"needs a C\+\+ compiler \(no-such-compiler\)"):
        load(save_exported(tmp_path / "model.pt2"), compile=True)


class _Compiler:
    """Stands in for torch.compile, which takes most of a minute: `wrap` makes what it would have made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wrap: Any) -> None:
        self.modes: list[str] = []
        self.stances: list[str] = []
        self._wrap = wrap
        monkeypatch.setenv("CXX", "true")
        monkeypatch.setattr(torch, "compile", self._compile)
        monkeypatch.setattr(torch.compiler, "set_stance", self.stances.append)

    def _compile(self, call: Any, *, mode: str) -> Any:
        self.modes.append(mode)
        return self._wrap(call)


def test_it_compiles_for_one_row_and_for_more_and_never_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def counting(call: Any) -> Any:
        def counted(tensors: Any) -> Any:
            rows.append(len(tensors[0]))
            return call(tensors)

        return counted

    compiler = _Compiler(monkeypatch, counting)
    model = load(save_exported(tmp_path / "model.pt2"), compile=True, compile_mode="max-autotune", cpus=2)
    assert rows == [2, 1]
    assert compiler.modes == ["max-autotune"]
    assert compiler.stances == ["default", "eager_on_recompile"]
    assert model.description.engine_facts["compile"].startswith("max-autotune, in ")
    assert model.wide_executor() is None
    run(model, ONES)
    assert rows == [2, 1, 2]


def _raises(call: Any) -> Any:
    def broken(tensors: Any) -> Any:
        raise RuntimeError("a secret of the compiler's")

    return broken


_END_OF_HANG = threading.Event()


def _hangs(call: Any) -> Any:
    return lambda tensors: [_END_OF_HANG.wait(60)]


@pytest.mark.parametrize(
    ("wrap", "reason"),
    [
        (_raises, r"no: torch.compile failed \(RuntimeError\)"),
        (_hangs, "no: torch.compile took longer than 0.05 s"),
        (lambda call: lambda tensors: call(tensors) + 1, "no: what torch.compile made gives other answers"),
    ],
)
def test_a_compiler_that_fails_leaves_the_model_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: Any, reason: str
) -> None:
    _Compiler(monkeypatch, wrap)
    timeout = 50_000_000 if wrap is _hangs else 60_000_000_000
    _END_OF_HANG.clear()
    model = load(save_exported(tmp_path / "model.pt2"), compile=True, compile_timeout_ns=timeout)
    _END_OF_HANG.set()
    assert re.fullmatch(reason, model.description.engine_facts["compile"])
    np.testing.assert_array_equal(run(model, ONES)[0], EXPECTED)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_real_compiler_gives_the_same_answers(tmp_path: Path) -> None:
    model = load(save_exported(tmp_path / "model.pt2"), compile=True, compile_timeout_ns=500_000_000_000)
    assert model.description.engine_facts["compile"].startswith("default, in ")
    for rows in (1, 2, 7):
        np.testing.assert_allclose(run(model, np.ones((rows, 4), np.float32))[0], np.full((rows, 3), 2), rtol=1e-5)


def test_a_row_of_an_array_that_was_turned_round_is_taken(tmp_path: Path) -> None:
    model = load(save_script(tmp_path / "model.pt"), inputs=X)
    np.testing.assert_array_equal(run(model, ONES[::-1][:1])[0], EXPECTED[:1])


def test_exported_programs_are_loaded_side_by_side(tmp_path: Path) -> None:
    path = save_exported(tmp_path / "model.pt2")
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: load(path), range(4)))
    assert all(model.description.inputs == X for model in models)


def test_teams_of_threads_sleep_between_operators_and_its_log_is_ours() -> None:
    """GNU's OpenMP says what it was told when it is loaded."""
    code = (
        "import logging, sys; from guepard.backends.pytorch_runtime import import_torch; import_torch(2); "
        "logging.basicConfig(stream=sys.stdout, format='record of %(name)s: %(message)s'); "
        "logging.getLogger('torch.export').warning('damaged')"
    )
    environment = {**os.environ, "OMP_DISPLAY_ENV": "TRUE"}
    environment.pop("OMP_WAIT_POLICY", None)
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in run.stderr
    assert run.stdout == "record of torch.export: damaged\n"
    assert "damaged" not in run.stderr


def test_a_missing_pytorch_is_told_with_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_script(tmp_path / "model.pt")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(LoadError, match=r"pip install 'guepard\[torch\]'"):
        load(path, inputs=X)


def test_a_pytorch_that_cannot_be_imported_is_told_to_be_installed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = save_script(tmp_path / "model.pt")
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    with pytest.raises(LoadError, match=r"PyTorch is installed, .* \(OSError; .*--force-reinstall 'guepard\[torch\]'"):
        load(path, inputs=X)
    assert "libtorch_cpu.so" in caplog.text


def test_each_execution_uses_its_own_number_of_threads(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Threads(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.full((len(x), 1), torch.get_num_threads())\n"
        "def build(path, parameters):\n"
        "    return Threads()\n"
    )
    model = load(tmp_path, factory="net.py:build", inputs=X, threads=2, cpus=3)
    narrow, wide = model.executor(), model.wide_executor()
    assert wide is not None
    assert [int(each.execute([ONES], ())[0][0, 0]) for each in (narrow, wide, narrow)] == [2, 3, 2]
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(int(narrow.execute([ONES], ())[0][0, 0])))
    thread.start()
    thread.join()
    assert found == [2]
