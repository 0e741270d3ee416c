"""Small raw data of a comparison."""

from typing import Any

from benchmarks.comparisons.records import (
    Comparison,
    EngineRecord,
    FailureRecord,
    LoadRecord,
    PeerRecord,
    StartRecord,
)

ENVIRONMENT = {
    "date": "2026-11-30T12:00:00+00:00",
    "commit": "0123456789ab",
    "machine": {"cpu": "A processor", "cores": 2, "memory_gib": 24.0, "system": "Linux 6"},
    "versions": {"python": "3.11.7"},
}


def a_load(peer: str, **other: Any) -> LoadRecord:
    told: dict[str, Any] = {
        "model": "mlp", "setting": "batches", "form": "JSON", "kind": "json", "connections": 1, "turn": 0,
        "requests": 1_000, "failed": 0, "requests_per_second": 500.0, "p50_ms": 1.0, "p90_ms": 2.0, "p99_ms": 3.0,
        "is_p99_supported": True, "cpu_us": 100.0, "server_cores": 0.5, "client_cores": 0.2, "other_cores": 0.0,
        "is_quiet": True, "rss_bytes": 100_000_000, "pss_bytes": 80_000_000, "findings": (),
    }  # fmt: skip
    return LoadRecord(peer=peer, **{**told, **other})


def a_start(peer: str, **other: Any) -> StartRecord:
    told: dict[str, Any] = {
        "model": "mlp", "setting": "batches", "form": "all", "turn": 0, "start_s": 1.0,
        "idle_rss_bytes": 90_000_000, "idle_pss_bytes": 70_000_000, "processes": 2,
    }  # fmt: skip
    return StartRecord(peer=peer, **{**told, **other})


def a_peer(name: str, title: str, onnxruntime: str = "1.32.0") -> PeerRecord:
    versions = {"python": "3.11.7", name: "1.2.3", "onnxruntime": onnxruntime}
    return PeerRecord(
        name=name, title=title, home="https://example.org/", set_up="as it comes.", package=name, versions=versions
    )


def a_comparison(*loads: LoadRecord, **other: Any) -> Comparison:
    """Of Guepard and two peers, each started once for whatever was loaded."""
    started = {
        (load.peer, load.model, load.setting): a_start(load.peer, model=load.model, setting=load.setting)
        for load in loads
    }
    told: dict[str, Any] = {
        "environment": ENVIRONMENT, "duration_s": 2.0, "turns": 3, "connections": (1, 8, 64), "models": ("mlp",),
        "is_quick": False, "wall_s": 60.0, "engine": (), "starts": tuple(started.values()), "failures": (),
        "peers": (a_peer("guepard", "Guepard"), a_peer("mosec", "MOSEC"), a_peer("triton", "Triton")),
    }  # fmt: skip
    return Comparison(loads=loads, **{**told, **other})


def a_failure(peer: str, reason: str) -> FailureRecord:
    return FailureRecord(peer=peer, model="all", setting="all", form="all", reason=reason)


def an_engine(model: str, batch_size: int, rate: float) -> EngineRecord:
    return EngineRecord(model=model, turn=0, batch_size=batch_size, inferences_per_second=rate, is_quiet=True)
