"""Who may reach the routes that manage or observe the server.

On loopback anybody on the machine may; a web page that a browser on that machine has open may not, and it is told apart
by the headers that browsers set: a foreign Origin, Sec-Fetch-Site, or a Host that a DNS trick points here. Beyond
loopback these routes stay closed until `auth.anonymous` names them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from guepard.core.errors import PermissionDenied
from guepard.server.http.request_head import RequestHead


@dataclass(frozen=True, slots=True)
class Guard:
    """`loopback`: the listener is bound to loopback alone. `anonymous`: verbs open to callers without credentials."""

    loopback: bool
    hosts: frozenset[str]
    anonymous: frozenset[str]

    def needs(self, verb: str) -> Callable[[RequestHead], None]:
        """The check of routes that `verb` stands for."""
        return lambda head: self.check(head, verb)

    def check_verb(self, verb: str) -> None:
        """The part that every front end has in common. Raises: PermissionDenied, with what to change."""
        if not self.loopback and verb not in self.anonymous:
            raise PermissionDenied(
                f"this is closed beyond loopback; list {verb!r} under auth.anonymous to open it to everybody"
            )

    def check(self, head: RequestHead, verb: str) -> None:
        """Raises: PermissionDenied, with what to change."""
        self.check_verb(verb)
        host = head.text(b"host")
        if host is not None and not self._is_known(_hostname(host)):
            raise PermissionDenied(f"Host {host[:128]!r} is not this server; name it in server.allowed_hosts")
        origin = head.text(b"origin")
        if origin is not None and (not host or origin.lower().partition("://")[2] != host.lower()):
            raise PermissionDenied(f"Origin {origin[:128]!r} may not use this route")
        site = head.text(b"sec-fetch-site")
        if site is not None and site.lower() not in ("same-origin", "none"):
            raise PermissionDenied(f"Sec-Fetch-Site {site[:32]!r} may not use this route")

    def _is_known(self, hostname: str) -> bool:
        """Addresses are safe: a page's own name must resolve here for it to get this far."""
        if hostname in self.hosts or hostname == "localhost" or hostname.endswith(".localhost"):
            return True
        try:
            ip_address(hostname)
        except ValueError:
            return False
        return True


def _hostname(host: str) -> str:
    """The name in a Host header, without its port and an address's brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""
