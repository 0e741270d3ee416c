"""A port belongs to one listener from the moment that it was asked for."""

import pytest

from guepard.core.errors import ConfigurationError
from guepard.server.listener import bind


def test_a_port_is_taken_before_anything_is_served_on_it() -> None:
    with bind("127.0.0.1", 0, "server.http_port") as first:
        port = first.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"server\.metrics_port: cannot listen on 127.0.0.1 port {port}"):
            bind("127.0.0.1", port, "server.metrics_port")
    bind("127.0.0.1", port, "server.http_port").close()
