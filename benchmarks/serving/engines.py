"""The engines by themselves, each driven as is fastest under full load: so many threads, each with a run of its own.

Another engine joins by an entry of `ENGINES`.
"""

from collections.abc import Callable, Mapping

from benchmarks.models import Array, ReferenceModel

Run = Callable[[Array], Array]
"""Rows of the model's input to rows of its output. One thread at a time."""

Engine = Callable[[ReferenceModel, int, str], Callable[[], Run]]
"""A model, the threads that will run it, and a precision → what makes a run for each of them."""


def open_onnxruntime(model: ReferenceModel, threads: int, precision: str) -> Callable[[], Run]:
    """One session whose operators use one thread each."""
    from benchmarks.serving.raw_engine import open_session

    if precision != "f32":
        raise ValueError("ONNX Runtime computes in the precision of the model")
    session = open_session(model)

    def run(rows: Array) -> Array:
        answer: Array = session.run([model.output_name], {model.input_name: rows})[0]
        return answer

    return lambda: run


def open_openvino(model: ReferenceModel, threads: int, precision: str) -> Callable[[], Run]:
    """One compiled model with a stream of one thread for each, and a request for each."""
    import openvino

    core = openvino.Core()
    properties = {"INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": threads, "INFERENCE_NUM_THREADS": threads}
    compiled = core.compile_model(core.read_model(model.path()), "CPU", {**properties, "ENABLE_CPU_PINNING": False})
    if compiled.get_property("INFERENCE_PRECISION_HINT") != getattr(openvino.Type, precision):
        raise ValueError(f"this CPU does not compute in {precision}")

    def make() -> Run:
        request = compiled.create_infer_request()

        def run(rows: Array) -> Array:
            request.set_input_tensor(0, openvino.Tensor(rows, shared_memory=True))
            request.infer(share_outputs=True)
            answer: Array = request.get_output_tensor(0).data
            return answer

        return run

    return make


def open_pytorch(model: ReferenceModel, threads: int, precision: str) -> Callable[[], Run]:
    """One module, whose operators use one thread each: an exported program, as the server is given it."""
    import torch

    if model.suffix != ".pt2":
        raise ValueError("PyTorch runs exported programs")
    if precision != "f32":
        raise ValueError("what autocast makes of a module is not measured here")
    module = torch.export.load(model.path()).module()

    def make() -> Run:
        torch.set_num_threads(1)  # a number of the calling thread's own

        def run(rows: Array) -> Array:
            with torch.inference_mode():
                answer: Array = module(torch.from_numpy(rows)).numpy()
            return answer

        return run

    return make


ENGINES: Mapping[str, Engine] = {"onnxruntime": open_onnxruntime, "openvino": open_openvino, "pytorch": open_pytorch}
