"""Padding of one model while it is loaded: what is said of it, tried, and the bounds that nobody named, measured."""

import logging
from dataclasses import replace

from guepard.backends.base import Executor
from guepard.core.model_config import ModelDescription, ModelPolicy
from guepard.core.padding import Padding, PaddingRules
from guepard.engine.padding_rules import settle_padding
from guepard.engine.padding_trial import Worth, prove_padding
from guepard.engine.warmup import Warmup

log = logging.getLogger(__name__)


def apply_padding(
    name: str, executor: Executor, description: ModelDescription, policy: ModelPolicy, warmup: Warmup
) -> Padding | None:
    """What is padded in the model, None for nothing.

    Raises: LoadError for rules that do not fit it.
    """
    rules = description.padding if policy.padding is None else policy.padding.over(description.padding)
    if rules is None or (rules.origin == "inferred" and not description.max_batch_size):
        return None
    if warmup.rows_independent is False and not description.max_batch_size and rules.inputs:
        log.warning("model %s: rows depend on one another, so no requests are padded to share a batch", name)
        return None
    padding = settle_padding(rules, description)
    if padding is None:
        return None
    proved, worth = prove_padding(name, executor, description, padding, rules.origin, warmup.free_size)
    if proved is None:
        return None
    if worth is not None:
        proved = _bounded(proved, rules, worth, policy, description)
    log.info(
        "model %s: requests of different length share batches; padded: %s; cut back: %s",
        name,
        ", ".join(f"{each.name} with {each.value}" for each in proved.inputs),
        ", ".join(f"{each.name} along axis {each.axis - 1}" for each in proved.outputs) or "nothing",
    )
    return proved


def _bounded(
    padding: Padding, rules: PaddingRules, worth: Worth, policy: ModelPolicy, description: ModelDescription
) -> Padding:
    """`padding` with the bounds that nobody named, by what was measured.

    Tokens are bounded only where rows are, too: who names batches, or runs code that holds the interpreter, wants them
    as large as they may be.
    """
    max_tokens, max_padding = padding.max_tokens, padding.max_padding
    if rules.max_tokens is None and description.releases_gil and not policy.names_batches:
        max_tokens = max(worth.paying_tokens, *padding.buckets[-1:], 1)
    if rules.max_padding is None:
        max_padding = worth.execution_tokens
    return replace(padding, max_tokens=max_tokens, max_padding=max_padding)
