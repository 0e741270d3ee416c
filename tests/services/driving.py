"""A client of the load generator, driven in this process through a whole plan."""

import socket
import time

from guepard.measure.load.driver import Driver
from guepard.measure.load.grpc_client import GrpcClient
from guepard.measure.load.http_client import HttpClient
from guepard.measure.load.journal import Journal
from guepard.measure.load.plan import LoadPlan
from guepard.measure.load.poller import Poller
from guepard.measure.load.records import Records


def drive(wanted: LoadPlan, kind: type[HttpClient] | type[GrpcClient]) -> tuple[Records, Journal]:
    """What became of each request, and what else was written down."""
    journal, poller = Journal(), Poller()
    driver = Driver(wanted, share=0, shares=1, journal=journal, poller=poller, flush=lambda: None)
    client = kind(wanted, driver, socket.AF_INET, (wanted.endpoint.host, wanted.endpoint.port))
    try:
        driver.run(client, time.monotonic_ns())
    finally:
        client.close()
        poller.close()
    return Records.view(journal.rows.tobytes()), journal
