"""States of a model version and the moves between them that are legal. Words: Triton's ModelReadyState."""

from enum import Enum


class ModelReadyState(Enum):
    UNKNOWN = "UNKNOWN"
    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


MOVES: dict[ModelReadyState, frozenset[ModelReadyState]] = {
    ModelReadyState.UNKNOWN: frozenset({ModelReadyState.LOADING}),
    ModelReadyState.LOADING: frozenset({ModelReadyState.READY, ModelReadyState.UNAVAILABLE}),
    ModelReadyState.READY: frozenset({ModelReadyState.UNLOADING}),
    ModelReadyState.UNLOADING: frozenset({ModelReadyState.UNAVAILABLE}),
    ModelReadyState.UNAVAILABLE: frozenset({ModelReadyState.LOADING}),
}
