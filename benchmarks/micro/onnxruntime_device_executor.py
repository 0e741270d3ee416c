"""`backends/onnxruntime_device_executor.py`: the MLP with its inputs and outputs bound, on the CPU's memory."""

from benchmarks.micro.stage.models import X, Y
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.raw_engine import open_session
from guepard.backends.onnxruntime_device_executor import DeviceExecutor
from guepard.core.model_config import ModelDescription


def cases() -> list[Case]:
    mlp = DeviceExecutor(
        open_session(MLP), MLP.name, ModelDescription("onnxruntime_onnx", "onnxruntime", (X,), (Y,), 64)
    )
    rows = {size: MLP.sample(size) for size in (1, 64)}
    return [Case(f"MLP, {size} rows", lambda size=size: mlp.execute((rows[size],), ())) for size in rows]  # type: ignore[misc]
