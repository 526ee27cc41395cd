"""Finds the address and credentials of the API server: from the ServiceAccount of a pod, or from a kubeconfig."""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from yaml import YAMLError

from webhook.errors import BadInput

_Files = tuple[str | None, str | None, str | None]
"""Those of the CA, the client certificate and its key, as far as there are any."""
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Access(NamedTuple):
    """The address and credentials of an API server."""

    base: str
    """`https://host:port`"""
    tls: ssl.SSLContext | None
    authorization: str | None
    """The value of the Authorization header."""
    server_name: str | None
    """The name in the certificate of the API server, if it is not the host of `base`."""
    lasts: float
    """Seconds until the credentials must be read again, because tokens expire."""
    more: tuple[tuple[str, str], ...] = ()
    """Headers of each request beside that, such as those that impersonate somebody."""
    timeout: float | None = None
    """Seconds that an answer may take; None: as long as usual."""

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Who asks, as headers of a request."""
        return [*([("Authorization", self.authorization)] if self.authorization else []), *self.more]


def always(access: Access) -> Callable[[], Awaitable[Access]]:
    """Gives this access whenever it is read again, for a command that ends before its credentials do."""

    async def kept() -> Access:
        return access

    return kept


async def in_cluster(folder: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> Access:
    """The access of the pod's ServiceAccount. Raises BadInput outside of a pod, or if the token is not mounted."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise BadInput("not in a cluster: KUBERNETES_SERVICE_HOST is not set. Give --kubeconfig FILE or --from FILE")
    try:
        # Small files in memory, so reading them blocks nothing. The kubelet renews the token about every hour.
        token, tls = (folder / "token").read_text(), _tls((str(folder / "ca.crt"), None, None), verify=True)
    except OSError as error:
        fix = "Set automountServiceAccountToken: true, or give --kubeconfig FILE"
        raise BadInput(f"{error.filename or folder / 'ca.crt'}: cannot be read: {error.strerror}. {fix}") from None
    base = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(base, tls, f"Bearer {token.strip()}", None, 60.0)


async def from_kubeconfig(path: Path | str, context: str | None = None) -> Access:
    """The access of a kubeconfig context, by default the current one. Exec plugins work too.

    `path`: one file or several, as in KUBECONFIG. Raises BadInput if it cannot be used.
    """
    # Imported here, because it takes half a second and 35 MB for seven hundred models that are not used.
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.config import ConfigException, load_kube_config  # noqa: PLC0415

    configuration = Configuration()
    try:
        await load_kube_config(str(path), context, client_configuration=configuration, persist_config=False)
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        tls = _tls(files, verify=configuration.verify_ssl)
    except (OSError, ConfigException, YAMLError, ValueError, TypeError, AttributeError) as error:
        raise BadInput(f"--kubeconfig {path}: {type(error).__name__}: {' '.join(str(error).split())}") from None
    base = str(configuration.host).rstrip("/")
    return Access(base, tls, configuration.api_key.get("BearerToken"), configuration.tls_server_name, 300.0)


def _tls(files: _Files, *, verify: bool) -> ssl.SSLContext:
    """A context by these files. Equal contents give the same one, because connections are kept per context. Raises OSError."""
    return _context(files, tuple([Path(file).read_bytes() if file else b"" for file in files]), verify)


@lru_cache(maxsize=1)
def _context(files: _Files, _contents: tuple[bytes, ...], verify: bool) -> ssl.SSLContext:
    ca, certificate, key = files
    tls = ssl.create_default_context(cafile=ca)
    # Strict since Python 3.13: the CAs of many clusters lack key identifiers.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate:
        tls.load_cert_chain(certificate, key)
    if not verify:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls
