"""Chosen requests of one model, each as one record of the logger `guepard.trace`."""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from guepard.core.model_config import ModelConfig
from guepard.core.phases import STAMPS, BatchStamps
from guepard.core.reasons import FailureReason
from guepard.core.request import InferenceRequest
from guepard.telemetry.logging import TRACE_LOGGER

_logger = logging.getLogger(TRACE_LOGGER)

UNBOUNDED = -1


class TracePlan(NamedTuple):
    """Every `rate`-th request, at most `limit` of them; UNBOUNDED for all."""

    is_on: bool
    rate: int
    limit: int


class RequestTrace:
    """To be told of every request of a model as it ends while `is_on`, which callers test once per batch.

    A stamp that a failed request did not reach is left out of its record. Belongs to the event loop's thread. A model
    keeps its trace when it is loaded again.
    """

    __slots__ = ("_left", "_seen", "is_on", "plan")

    def __init__(self, plan: TracePlan) -> None:
        self.begin(plan)

    def begin(self, plan: TracePlan) -> None:
        """Count anew."""
        self.plan = plan
        self._seen = 0
        self._left = plan.limit
        self.is_on = plan.is_on and plan.limit != 0

    def succeeded(
        self, config: ModelConfig, requests: Iterable[InferenceRequest], stamps: BatchStamps, now: int
    ) -> None:
        for request in requests:
            if self._is_chosen():
                _write(config, request, stamps, now, None)

    def failed(
        self,
        config: ModelConfig,
        request: InferenceRequest,
        stamps: BatchStamps | None,
        now: int,
        reason: FailureReason,
    ) -> None:
        """`stamps`: of the execution that failed, if there was one."""
        if self._is_chosen():
            _write(config, request, stamps, now, reason)

    def _is_chosen(self) -> bool:
        if not self.is_on:  # a request before this one in the same batch was the last
            return False
        self._seen += 1
        if self._seen < self.plan.rate:
            return False
        self._seen = 0
        if self._left != UNBOUNDED:
            self._left -= 1
            self.is_on = self._left > 0
        return True


def _write(
    config: ModelConfig, request: InferenceRequest, stamps: BatchStamps | None, now: int, reason: FailureReason | None
) -> None:
    executed = stamps or BatchStamps()
    moments = (
        request.request_start,
        getattr(request, "queue_start", 0),  # not set before the batcher has been there
        executed.compute_start,
        executed.compute_input_end,
        executed.compute_output_start,
        executed.compute_end,
        now,
    )
    fields: dict[str, object] = {"model": config.name, "version": config.version}
    if request.id:
        fields["inference_id"] = request.id
    fields |= {stamp: moment for stamp, moment in zip(STAMPS, moments, strict=True) if moment}
    fields["outcome"] = "success" if reason is None else "failure"
    if reason is not None:
        fields["failure"] = reason.value
    _logger.info("trace", extra=fields)
