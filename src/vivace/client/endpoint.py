"""Where requests go: a URL taken apart."""

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from vivace.errors import ConfigError

CHAT_PATH = "/v1/chat/completions"

#: Address family and socket address, as `socket.connect` takes them.
Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Host, port and path of the chat completions. Proxy variables are never looked at."""

    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def resolve(self) -> Address:
        """Looks the host up, once, before any clock starts; raises `ConfigError`."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConfigError(
                f"host `{self.host}` cannot be resolved: {error}",
                hint="check the URL's spelling and the network",
            ) from error
        family, _, _, _, address = found[0]
        return family, address  # pyright: ignore[reportReturnType]


def parse_endpoint(url: str) -> Endpoint:
    """`http://HOST[:PORT][/v1[/chat/completions]]` to an `Endpoint`; raises `ConfigError`."""
    hint = "give a URL such as `http://127.0.0.1:8080`"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"not a URL: `{url}`: {error}", hint=hint) from error
    if parts.scheme != "http" or not host:
        raise ConfigError(f"endpoint must be an `http://` URL, got `{url}`", hint=hint)
    base = parts.path.rstrip("/")
    if not base.endswith("/chat/completions"):
        base = base.removesuffix("/v1") + CHAT_PATH
    return Endpoint(host=host, port=port or 80, path=base)
