"""Targets that take tensors: the Open Inference Protocol in its three forms, and predict."""

from collections.abc import Iterator
from itertools import count

import numpy as np

from guepard.bench.targets.grpc_asker import GrpcAsker
from guepard.bench.targets.header_lines import grpc_metadata
from guepard.bench.targets.model_metadata import ModelMetadata
from guepard.bench.targets.model_server import GrpcModelServer, HttpModelServer, ModelServer, only_model
from guepard.bench.targets.named_target import NamedTarget
from guepard.bench.targets.payload_corpus import Made, PayloadCorpus, generated_corpus, sampled_corpus
from guepard.bench.targets.predict_samples import PredictReader
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.random_tensors import random_tensor
from guepard.bench.targets.sample_files import JSON_SUFFIXES, Sample, data_files, json_samples
from guepard.bench.targets.tensor_bodies import Body
from guepard.bench.targets.tensor_call import TensorCall
from guepard.bench.targets.tensor_samples import oip_call, read_calls
from guepard.bench.targets.tensor_shapes import plan_shapes
from guepard.bench.targets.tensor_writer import TensorWriter
from guepard.bench.targets.unique_spots import number_spot
from guepard.core.errors import ConfigurationError
from guepard.measure.load.plan import ReplyRule


def prepare_tensors(named: NamedTarget, protocol: str) -> PreparedTarget:
    """Payloads for one model, whose metadata are asked for. Raises: ConfigurationError, TargetRefused."""
    if named.question.method is not None:
        raise ConfigurationError(f"--method {named.question.method}: {protocol} has its own; leave it out")
    if protocol == "oip-grpc":
        metadata = grpc_metadata(named.headers)
        with GrpcAsker(named.endpoint, metadata, named.question.timeout_s, named.patience) as asker:
            return _Preparation(named, protocol, GrpcModelServer(asker)).prepare()
    server = HttpModelServer(named.asker(), named.kind.prefix, predict=protocol == "predict")
    return _Preparation(named, protocol, server).prepare()


class _Preparation:
    def __init__(self, named: NamedTarget, protocol: str, server: ModelServer) -> None:
        self._named = named
        self._question = named.question
        self._protocol = protocol
        self._server = server
        self._notes: list[str] = []
        self._source = ""
        self._name = named.model or only_model(server.models(), named.url.shown)
        self._model = server.metadata(self._name, named.version)
        self._writer = TensorWriter(named, protocol, self._name)

    def prepare(self) -> PreparedTarget:
        corpus = self._corpus()
        if not any(payload.spot for payload in corpus.payloads):
            count = len(corpus.payloads)
            self._notes.append(f"no request can be made unique, the inputs hold too little: {count} are sent in turn")
        version = self._named.version or (self._model.version if self._model else None)
        return PreparedTarget(
            endpoint=self._named.endpoint,
            payloads=corpus.payloads,
            reply=ReplyRule(expect=self._question.expect or ""),
            target=self._named.told(self._protocol, self._name, version, self._server.name()),
            source=self._source,
            sha256=corpus.sha256,
            notes=tuple(dict.fromkeys(self._notes)),
            path_prefix=self._named.kind.prefix,
            headers=grpc_metadata(self._named.headers) if self._protocol == "oip-grpc" else self._named.headers,
        )

    def _corpus(self) -> PayloadCorpus:
        question = self._question
        if question.data is None and question.body is None:
            self._source = f"random values by seed {question.seed} for the inputs that the model declares"
            return generated_corpus(self._generated(self._known()), question.corpus_size, self._notes)
        if question.shapes:
            raise ConfigurationError("--shape: samples have their own shapes; leave it out")
        self._source = "--body" if question.data is None else f"samples in {question.data}"
        return sampled_corpus(self._sampled(), self._notes)

    def _known(self) -> ModelMetadata:
        if self._model is None:
            raise ConfigurationError(
                f"model {self._name!r}: the server does not tell its inputs; give whole requests in JSON with --data"
            )
        return self._model

    def _generated(self, model: ModelMetadata) -> Iterator[Made]:
        planned = plan_shapes(model.inputs, self._question.batch, self._question.shapes)
        self._notes += planned.notes
        for number in count():
            random = np.random.default_rng((self._question.seed, number))
            tensors = [
                random_tensor(random, one.name, one.datatype, planned.shapes[one.name], number) for one in model.inputs
            ]
            yield self._writer.write(TensorCall("random values", tensors, generated=True))

    def _sampled(self) -> Iterator[Made]:
        reader = PredictReader(self._model)
        for sample in self._samples():
            if isinstance(sample, TensorCall):
                yield self._writer.write(sample)
            elif self._protocol == "predict":
                reader.read(sample)
                yield self._writer.as_it_is(Body(sample.content, number_spot(sample.content)))
            else:
                call = oip_call(sample, self._model)
                if self._protocol == "oip-json":  # the user's own bytes
                    yield self._writer.as_it_is(Body(sample.content, number_spot(sample.content, b'"data"')))
                else:
                    yield self._writer.write(call)

    def _samples(self) -> Iterator[Sample | TensorCall]:
        """Requests in JSON as they are, everything else as calls."""
        if self._question.data is None:
            yield Sample("--body", (self._question.body or "").encode())
            return
        for path in data_files(self._question.data):
            if path.suffix in JSON_SUFFIXES:
                yield from json_samples(path)
            else:
                yield from read_calls(path, self._known(), self._question.batch, self._notes)
