"""Every method of the gRPC port, joined to its listener."""

from guepard.core.regions import RegionRegistry
from guepard.engine.data_plane import DataPlane
from guepard.server.documents import Documents
from guepard.server.grpc.call import UnaryMethod
from guepard.server.grpc.document_methods import DocumentMethods
from guepard.server.grpc.health import Health
from guepard.server.grpc.infer_method import InferMethod
from guepard.server.grpc.listener import GrpcContext, GrpcListener
from guepard.server.http.guard import Guard


def build_listener(
    context: GrpcContext, data_plane: DataPlane, documents: Documents, guard: Guard, regions: RegionRegistry
) -> GrpcListener:
    """A listener that has no port yet. To be called on the event loop that will run it."""

    methods: list[UnaryMethod] = [
        InferMethod(data_plane, regions),
        *DocumentMethods(documents, regions, guard.check_verb).methods(),
    ]
    listener = GrpcListener(context, methods, Health(documents))
    context.metrics.expose_routes(listener.paths)
    return listener
