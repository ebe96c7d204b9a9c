"""``python -m streams.cli.health [URL …]``: exit code 0 when one of the addresses answers 2xx. For containers.

Without addresses: the HTTP door's and a role's metrics port as the image sets them. Imports nothing heavy, since
it is started every few seconds.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

DEFAULTS = ("http://127.0.0.1:8420/healthz", "http://127.0.0.1:9464/metrics")
TIMEOUT_S = 3.0
_SCHEMES = ("http://", "https://")


def healthy(url: str) -> bool:
    """Whether ``url`` answers 2xx within TIMEOUT_S. Proxies of the environment are not used."""
    if not url.startswith(_SCHEMES):
        return False
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            return bool(200 <= answer.status < 300)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def main(urls: list[str]) -> int:
    """The exit code for ``urls``."""
    return 0 if any(healthy(url) for url in urls or DEFAULTS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
