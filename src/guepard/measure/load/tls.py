"""TLS as the plan wants it."""

import ssl

from guepard.measure.load.plan import Endpoint


def tls_context(endpoint: Endpoint, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
    """`protocols` are offered by ALPN. Raises: OSError if `ca_file` cannot be read as certificates."""
    context = ssl.create_default_context(cafile=endpoint.ca_file)
    if endpoint.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context
