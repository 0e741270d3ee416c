"""Every route of the API port: the one list that the router, the documents and the tests read."""

from guepard.core.regions import NOT_ALLOWED, RegionRegistry
from guepard.engine.data_plane import DataPlane
from guepard.protocols.error_body import OWN_STATUSES, StatusTable
from guepard.server.documents import Documents
from guepard.server.http.docs_routes import DocsRoutes
from guepard.server.http.guard import Guard
from guepard.server.http.oip_routes import OipRoutes
from guepard.server.http.router import Route
from guepard.server.http.sagemaker_routes import SageMakerRoutes
from guepard.server.http.settings_routes import SettingsRoutes
from guepard.server.http.shared_memory_routes import SharedMemoryRoutes
from guepard.server.http.v1_routes import V1Routes


def api_routes(
    data_plane: DataPlane,
    documents: Documents,
    guard: Guard,
    statuses: StatusTable = OWN_STATUSES,
    regions: RegionRegistry = NOT_ALLOWED,
) -> list[Route]:
    routes = [
        *OipRoutes(data_plane, documents, guard, statuses, regions).routes(),
        *SettingsRoutes(documents, guard).routes(),
        *SharedMemoryRoutes(regions, guard).routes(),
        *V1Routes(data_plane, documents, statuses).routes(),
        *SageMakerRoutes(data_plane, documents, regions).routes(),
    ]
    routes += DocsRoutes(routes, data_plane, documents).routes()
    return routes
