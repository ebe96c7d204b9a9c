"""Where a source's server is, and which addresses nothing is ever asked of.

The operator's configuration is the allow-list: one origin a source. Servers at home are in private networks, so
private and loopback addresses are fine there. Never fine, whatever a name resolves to: link-local addresses (the
metadata services of clouds), unspecified ones (0.0.0.0 reaches this very host), multicast and broadcast.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import httpx

from streams.upstream.errors import NotAllowed, UpstreamAway

URL_CHARS_MAX: Final = 1_024
_PORTS: Final = {"http": 80, "https": 443}
_PATH = re.compile(r"(?:/[A-Za-z0-9._~%-]+)*/?")
# Metadata services outside of the link-local ranges.
_METADATA: Final = frozenset(
    ipaddress.ip_address(text) for text in ("100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Host and port to addresses as text, best first. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port; ``path`` is what stands before every path of the server's API, without a final slash."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @classmethod
    def of(cls, url: str) -> Origin:
        """The origin an operator's address names. Raises NotAllowed, saying what is wrong with it."""
        if len(url) > URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
            raise NotAllowed("the address is too long or holds characters no address has")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise NotAllowed("the address can't be read") from None
        if parts.scheme not in _PORTS or not parts.hostname:
            raise NotAllowed("the address begins with http:// or https:// and names a host")
        if "@" in parts.netloc:
            raise NotAllowed("no user or password belongs into the address")
        if parts.query or parts.fragment or not _PATH.fullmatch(parts.path) or ".." in parts.path:
            raise NotAllowed("the address ends with its path, without '?', '#' or '..'")
        origin = cls(
            parts.scheme, parts.hostname, _PORTS[parts.scheme] if port is None else port, parts.path.rstrip("/")
        )
        literal = _literal(origin.host)
        if literal is not None:
            check_address(literal)
        return origin

    def holds(self, url: httpx.URL) -> bool:
        """Whether a request to ``url`` stays with this server."""
        port = url.port if url.port is not None else _PORTS.get(url.scheme)
        return (url.scheme, url.host, port) == (self.scheme, self.host, self.port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def check_address(address: Address) -> None:
    """Raises NotAllowed for an address nothing may be asked of."""
    plain = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped else address
    if (
        plain.is_link_local
        or plain.is_unspecified
        or plain.is_multicast
        or plain in _METADATA
        or (isinstance(plain, ipaddress.IPv4Address) and (plain.is_reserved or int(plain) >> 24 == 0))
    ):
        raise NotAllowed("the address is link-local, unspecified or multicast: no media server is there")


async def resolve(host: str, port: int) -> list[str]:
    """The system's answer, in its order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]).partition("%")[0] for *_, sockaddr in found))


async def chosen_address(origin: Origin, resolver: Resolve) -> str:
    """One address of the origin's host; all of them must be allowed, so that no chance decides.

    Raises NotAllowed, UpstreamAway when the name is not known.
    """
    literal = _literal(origin.host)
    if literal is not None:
        check_address(literal)
        return str(literal)
    try:
        found = await resolver(origin.host, origin.port)
    except (OSError, UnicodeError):
        raise UpstreamAway("the host's name can't be resolved") from None
    if not found:
        raise UpstreamAway("the host's name has no address")
    for text in found:
        address = _literal(text)
        if address is None:
            raise NotAllowed("the host's name resolves to no address")
        check_address(address)
    return found[0]


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
