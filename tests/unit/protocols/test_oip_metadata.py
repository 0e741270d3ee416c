"""Documents about the server and its models, field by field as the protocol has them."""

import json
from dataclasses import replace

import numpy as np

from guepard import __version__
from guepard.core.model_config import DynamicBatching, TimeoutPolicy
from guepard.core.padding import NO_BOUND, CutOutput, PaddedInput, Padding
from guepard.core.tensor import TensorSpec
from guepard.protocols.oip_metadata import model_config, model_metadata, server_metadata
from tests.unit.protocols.requests import config_of

TEXT = TensorSpec("text", "BYTES", [1])
MASK = TensorSpec("mask", "BOOL", [-1, 3], optional=True)


def test_the_server() -> None:
    document = server_metadata()
    assert (document["name"], document["version"]) == ("guepard", __version__)
    assert {"binary_tensor_data", "model_configuration", "model_repository", "statistics"} <= set(
        document["extensions"]
    )


def test_shapes_show_the_batch_where_there_is_one() -> None:
    document = model_metadata(config_of([TEXT, MASK], [TEXT]), ["1", "2"])
    assert document == {
        "name": "m",
        "versions": ["1", "2"],
        "platform": "identity",
        "inputs": [
            {"name": "text", "datatype": "BYTES", "shape": [-1, 1]},
            {"name": "mask", "datatype": "BOOL", "shape": [-1, -1, 3]},
        ],
        "outputs": [{"name": "text", "datatype": "BYTES", "shape": [-1, 1]}],
    }
    unbatched = model_metadata(config_of([MASK], max_batch_size=0), ["1"])
    assert unbatched["inputs"] == [{"name": "mask", "datatype": "BOOL", "shape": [-1, 3]}]


def test_the_configuration_says_whether_executions_may_have_all_cpus() -> None:
    config = config_of([MASK])
    assert "wide" not in model_config(config)["guepard"]
    document = model_config(replace(config, wide_rows=8, wide_reason="it pays"))
    assert document["guepard"]["wide"] == {"max_rows": 8, "reason": "it pays"}


def test_the_configuration_uses_triton_s_words() -> None:
    config = replace(
        config_of([TEXT, MASK], [TEXT]),
        dynamic_batching=DynamicBatching(2_000_000, (4, 8), 10),
        timeout=TimeoutPolicy(1_000_000_000, 2_000_000_000),
        parameters={"threshold": 0.5},
    )
    document = model_config(config)
    assert json.loads(json.dumps(document)) == document
    assert document["input"] == [
        {"name": "text", "data_type": "TYPE_STRING", "dims": [1], "optional": False},
        {"name": "mask", "data_type": "TYPE_BOOL", "dims": [-1, 3], "optional": True},
    ]
    assert document["output"] == [{"name": "text", "data_type": "TYPE_STRING", "dims": [1]}]
    assert document["max_batch_size"] == 8
    assert document["version_policy"] == {"specific": {"versions": [1]}}
    assert document["dynamic_batching"] == {
        "preferred_batch_size": [4, 8],
        "max_queue_delay_microseconds": 2_000,
        "default_queue_policy": {"max_queue_size": 10},
    }
    assert document["parameters"] == {"threshold": {"string_value": "0.5"}}
    assert document["instance_group"][0]["kind"] == "KIND_CPU"
    assert document["model_transaction_policy"] == {"decoupled": False}
    assert document["guepard"]["timeout_ms"] == {"default": 1_000, "max": 2_000}


def test_padding_is_shown_where_there_is_some() -> None:
    padding = Padding((PaddedInput("mask", 1, 2, np.int64(0)),), (CutOutput("text", 0, 1),), (8, 16), NO_BOUND, 3)
    document = model_config(replace(config_of([TEXT, MASK], [TEXT]), padding=padding))
    assert json.loads(json.dumps(document))["guepard"]["padding"] == {
        "inputs": {"mask": 0},
        "outputs": {"text": 0},
        "buckets": [8, 16],
        "max_tokens": None,
        "max_padding": 3,
    }
    assert "padding" not in model_config(config_of([TEXT]))["guepard"]


def test_a_value_that_numpy_holds_as_bits_is_shown_as_the_number() -> None:
    padding = Padding((PaddedInput("half", 0, 1, np.uint16(0x3FC0)),))
    document = model_config(replace(config_of([TensorSpec("half", "BF16", [-1])]), padding=padding))
    assert document["guepard"]["padding"]["inputs"] == {"half": 1.5}


def test_a_model_without_batches_has_no_batching() -> None:
    document = model_config(config_of(max_batch_size=0))
    assert document["max_batch_size"] == 0
    assert "dynamic_batching" not in document
