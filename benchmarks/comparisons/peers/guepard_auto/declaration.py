"""Guepard as it comes where OpenVINO is installed beside it: the engine is chosen by measurement."""

from benchmarks.comparisons.form import V2_BINARY
from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.peers.guepard.declaration import command, with_engine
from benchmarks.comparisons.setting import DEFAULTS, Settings

PEER = Peer(
    name="guepard_auto",
    title="Guepard, engine: auto",
    package="openvino",
    home="../how-to/choosing-an-engine.md",
    set_up="`guepard serve` with its defaults and the extra `openvino`: large models alone, as small ones stay with "
    "ONNX Runtime. Its answers are those of BF16 arithmetic where that was chosen: within a cosine of 0.999.",
    forms=(V2_BINARY,),
    command=command,
    prepare=with_engine("auto"),
    settings=Settings(small=(), large=(DEFAULTS,)),
    is_own=True,
    min_cosine=0.999,
)
