"""A real Redis with TLS only, which wants client certificates and knows users by an ACL; made by openssl."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from redis import Redis

from tests.support.redis_server import RedisServer, debian_redis, free_port

_ADMIN_PASSWORD = "admins-secret"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Certificates:
    """A CA and, by it, certificates of the server `names` and of clients, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._make("ca", "/CN=Test CA")
        self.server("server", "IP:127.0.0.1,DNS:localhost")
        self._make("client", "/CN=client", "-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"))

    def server(self, name: str, names: str) -> None:
        by = ("-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"))
        self._make(name, f"/CN={name}", *by, "-addext", f"subjectAltName={names}")

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def _make(self, name: str, subject: str, *more: str) -> None:
        out = ("-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.crt"))
        subprocess.run(
            ["openssl", "req", "-x509", *_KEY, "-subj", subject, *out, *more], check=True, capture_output=True
        )


class TlsRedis(RedisServer):
    """Debian's Redis. `as_user` gives a user's URL, percent-encoded as a URL wants it; `url` is the admin's."""

    def __init__(self, certificates: Certificates, options: Sequence[str] = (), server: str = "server") -> None:
        self.certificates = certificates
        tls = {
            "tls-cert-file": f"{server}.crt",
            "tls-key-file": f"{server}.key",
            "tls-ca-cert-file": "ca.crt",
        }
        words = [word for name, file in tls.items() for word in (f"--{name}", certificates.path(file))]
        acl = Path(certificates.path(f"users-{free_port()}.acl"))
        acl.write_text(f"user default off\nuser admin on ~* &* +@all >{_ADMIN_PASSWORD}\n")
        super().__init__([*words, "--aclfile", str(acl), *options], debian_redis())

    @property
    def listening(self) -> Sequence[str]:
        return "--port", "0", "--tls-port", str(self.port), "--tls-cluster", "yes"

    @property
    def url(self) -> str:
        return self.as_user("admin", _ADMIN_PASSWORD, ssl_check_hostname="false")

    def as_user(self, user: str, password: str, **options: str) -> str:
        """`options` of the URL replace those that name the certificates."""
        files = {"ssl_ca_certs": "ca.crt", "ssl_certfile": "client.crt", "ssl_keyfile": "client.key"}
        query: dict[str, Any] = {name: self.certificates.path(file) for name, file in files.items()} | options
        credentials = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return f"rediss://{credentials}@127.0.0.1:{self.port}/0?{urlencode(query)}"

    def define(self, user: str, rules: Sequence[str]) -> None:
        """ACL SETUSER."""
        with Redis.from_url(self.url) as admin:
            admin.execute_command("ACL SETUSER", user, *rules)
