"""All contenders, in the order in which they are told."""

from benchmarks.comparisons.peer import Peer
from benchmarks.comparisons.peers.bentoml.declaration import PEER as BENTOML
from benchmarks.comparisons.peers.fastapi.declaration import PEER as FASTAPI
from benchmarks.comparisons.peers.guepard.declaration import PEER as GUEPARD
from benchmarks.comparisons.peers.guepard_auto.declaration import PEER as GUEPARD_AUTO
from benchmarks.comparisons.peers.litserve.declaration import PEER as LITSERVE
from benchmarks.comparisons.peers.mlserver.declaration import PEER as MLSERVER
from benchmarks.comparisons.peers.mosec.declaration import PEER as MOSEC
from benchmarks.comparisons.peers.ray.declaration import PEER as RAY
from benchmarks.comparisons.peers.torchserve.declaration import PEER as TORCHSERVE
from benchmarks.comparisons.peers.triton.declaration import PEER as TRITON

PEERS: tuple[Peer, ...] = (GUEPARD, GUEPARD_AUTO, TRITON, MOSEC, FASTAPI, TORCHSERVE, MLSERVER, LITSERVE, BENTOML, RAY)
BY_NAME = {peer.name: peer for peer in PEERS}
