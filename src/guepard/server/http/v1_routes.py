"""TensorFlow Serving's REST API and KServe V1, and the list of models that OpenAI's clients read as well."""

from guepard.core.errors import NotReady, Unsupported
from guepard.engine.data_plane import DataPlane
from guepard.protocols.error_body import StatusTable
from guepard.protocols.v1_json import V1Codec
from guepard.server.documents import Documents
from guepard.server.http import v1_operations as operations
from guepard.server.http.document_endpoint import Document, DocumentRequest, Handler, document_route
from guepard.server.http.infer_endpoint import InferEndpoint
from guepard.server.http.response_writer import JSON_TYPE
from guepard.server.http.router import Route

_MODEL = "/v1/models/{model}"
_TEMPLATES = (_MODEL, f"{_MODEL}/versions/{{version}}", f"{_MODEL}/labels/{{label}}")

# What TensorFlow Serving and KServe have beside predict.
_NOT_SERVED = {
    "classify": "it reads tf.Example records, which only TensorFlow models have",
    "regress": "it reads tf.Example records, which only TensorFlow models have",
    "explain": "there is no explainer beside the model",
}


class V1Routes:
    def __init__(self, data_plane: DataPlane, documents: Documents, statuses: StatusTable) -> None:
        self._data_plane = data_plane
        self._documents = documents
        self._statuses = statuses

    def routes(self) -> list[Route]:
        found = [document_route("GET", "/v1/models", self._models, operation=operations.MODEL_LIST)]
        for template in _TEMPLATES:
            predict = f"{template}:predict"
            found += [
                document_route("GET", template, self._model, operation=operations.MODEL_STATUS),
                document_route("GET", f"{template}/metadata", self._metadata, operation=operations.SIGNATURE_DEF),
                Route("POST", predict, InferEndpoint(predict, self._data_plane, V1Codec), operations.PREDICT),
                *[
                    document_route(
                        "POST", f"{template}:{verb}", self._not_served(verb, why), operation=operations.NOT_SERVED
                    )
                    for verb, why in _NOT_SERVED.items()
                ],
            ]
        return found

    def _models(self, request: DocumentRequest) -> Document:
        return Document(self._documents.model_list())

    def _model(self, request: DocumentRequest) -> Document:
        document = self._documents.model_status(*_named(request))
        if document["ready"]:
            return Document(document)
        return Document(document, self._statuses.http(NotReady(document["error"])), JSON_TYPE + b"retry-after: 1\r\n")

    def _metadata(self, request: DocumentRequest) -> Document:
        return Document(self._documents.signature(*_named(request)))

    def _not_served(self, verb: str, why: str) -> Handler:
        def refuse(request: DocumentRequest) -> Document:
            name, version, label = _named(request)
            self._data_plane.lookup(name, version, label)
            raise Unsupported(f":{verb} is not served: {why}; use :predict")

        return refuse


def _named(request: DocumentRequest) -> tuple[str, str | None, str | None]:
    params = request.params
    return params["model"], params.get("version"), params.get("label")
