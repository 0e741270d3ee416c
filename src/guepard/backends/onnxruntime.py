"""ONNX models on ONNX Runtime."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from guepard.backends.base import LoadedModel, ModelSource
from guepard.backends.onnx_description import describe, model_file
from guepard.backends.onnx_external_data import check_external_data
from guepard.backends.onnxruntime_arena import shrink_shared_arena
from guepard.backends.onnxruntime_errors import load_error
from guepard.backends.onnxruntime_executor import OnnxRuntimeExecutor, executor_for
from guepard.backends.onnxruntime_placement import PLACEMENT_KEY, read_placement
from guepard.backends.onnxruntime_providers import check_precision, plan_providers
from guepard.backends.onnxruntime_session import session_options
from guepard.backends.shared_weights import SharedWeights
from guepard.core.errors import LoadError
from guepard.core.model_config import ModelDescription
from guepard.core.tensor import TensorSpec

_LOGGER = logging.getLogger("guepard.backends.onnxruntime")


class OnnxRuntimeBackend:
    """Loads a `.onnx` file or a folder that holds `model.onnx`. Libraries of custom operators are never loaded."""

    name = "onnxruntime"

    def load(self, source: ModelSource) -> LoadedModel:
        path = model_file(source.path)
        files = (path, *check_external_data(path))
        plan, facts = plan_providers(source.policy), dict[str, Any]()
        if plan.gpus:
            # Not before a model is for a GPU: it takes time, and most are not.
            from guepard.backends.onnxruntime_device import OnnxRuntimeDeviceModel, usable_plan
            from guepard.backends.provider_availability import installed_runtime

            runtime = installed_runtime()
            plan, facts = usable_plan(plan, source, runtime)
            if plan.gpus:
                return OnnxRuntimeDeviceModel(source, files, plan, lambda it: _describe(it, source), runtime, facts)
        else:
            check_precision(plan, source.precision, "f32")
        return self._load_on_cpu(source, files, facts)

    def _load_on_cpu(self, source: ModelSource, files: Sequence[Path], facts: dict[str, Any]) -> "OnnxRuntimeModel":
        path = files[0]
        cache = source.cache if source.profile == "standard" else None
        weights = SharedWeights(
            source.name,
            files,
            cache,
            lambda: session_options(source.threads, source.profile),
            logging.DEBUG if source.again else logging.WARNING,
        )
        if source.policy.instance_group.execution == "process" and source.policy.instance_group.count != 1:
            weights.share(source.memory_bytes)
        options = session_options(source.threads, source.profile)
        reports = source.policy.engines.onnxruntime.report_placement
        if reports:
            options.add_session_config_entry(PLACEMENT_KEY, "1")
        try:
            session = weights.session(options)
        except Exception as error:
            _LOGGER.error("model %s: %s", source.name, error)
            raise load_error(error, path) from None
        placement = read_placement(session) if reports else None
        if placement is not None:
            facts = facts | {"placement": placement.facts()}
        description = replace(_describe(session, source), engine_facts=facts)
        return OnnxRuntimeModel(source, session, description, weights)


class OnnxRuntimeModel:
    """One session, shared by all executors, and perhaps one more for wide executions."""

    def __init__(
        self, source: ModelSource, session: Any, description: ModelDescription, weights: SharedWeights
    ) -> None:
        self.description = description
        self._source = source
        self._session = session
        self._weights = weights

    def executor(self) -> OnnxRuntimeExecutor:
        return executor_for(self._session, self._source.name, self.description)

    def wide_executor(self) -> OnnxRuntimeExecutor | None:
        """None where its weights would take memory a second time that is worth a thought.

        The executors that are handed out after this call may share weights with it, those from before do not.
        """
        source, weights = self._source, self._weights
        if source.cpus <= source.threads:
            return None
        was_shared = weights.are_shared
        if weights.is_worthwhile and not weights.share(source.memory_bytes):
            return None
        if weights.are_shared and not was_shared:
            self._session = weights.session(session_options(source.threads, source.profile))
        return executor_for(
            weights.session(session_options(source.cpus, source.profile)), source.name, self.description
        )

    def trim(self) -> None:
        shrink_shared_arena()

    def health(self) -> None:
        """A session that loaded stays fit."""

    def close(self) -> None:
        self._session = None
        self._weights.release()


def _describe(session: Any, source: ModelSource) -> ModelDescription:
    # Initializers that old exporters list among the inputs are not in get_inputs(): they keep their values.
    metadata = session.get_modelmeta().custom_metadata_map
    description = describe(
        source, OnnxRuntimeBackend.name, "f32", session.get_inputs(), session.get_outputs(), metadata
    )
    _refuse_text_beside_bf16(description.inputs, description.outputs)
    return description


def _refuse_text_beside_bf16(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
    text = next((spec for spec in inputs if spec.datatype.name == "BYTES"), None)
    half = next((spec for spec in (*inputs, *outputs) if spec.datatype.name == "BF16"), None)
    if text and half:
        raise LoadError(
            f"the model joins the text input {text.name!r} with the BF16 tensor {half.name!r}, and ONNX Runtime's "
            "Python interface cannot carry both; cast the BF16 inputs and outputs to FP32 inside the model"
        )
