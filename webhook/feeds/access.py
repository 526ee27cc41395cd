"""How to reach the API server: as a pod does, or as a kubeconfig says."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from yaml import YAMLError

from webhook.errors import BadInput

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Access(NamedTuple):
    base: str
    """`https://host:port`"""
    tls: ssl.SSLContext | None
    authorization: str | None
    """The header; its token expires, so it is read again after `lasts` seconds."""
    server_name: str | None
    lasts: float


async def in_cluster(folder: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> Access:
    """With the ServiceAccount of our pod. Raises BadInput where this is no pod, or its token is not mounted."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise BadInput("not in a cluster: KUBERNETES_SERVICE_HOST is not set. Give --kubeconfig FILE or --cluster FILE")
    try:
        # Small files on a memory file system; the kubelet renews the token every hour or so.
        token, ca = (folder / "token").read_text(), (folder / "ca.crt").read_text()
    except OSError as error:
        fix = "Set automountServiceAccountToken: true, or give --kubeconfig FILE"
        raise BadInput(f"{error.filename}: cannot be read: {error.strerror}. {fix}") from None
    base = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(base, _trusting(ca), f"Bearer {token.strip()}", None, 60.0)


async def from_kubeconfig(path: Path | str, context: str | None = None) -> Access:
    """With a context of a kubeconfig, the current one unless another is named, exec plugins included. `path` may be several, as
    in KUBECONFIG. Raises BadInput where it cannot be used."""
    # Imported only here: it takes half a second and 35 MB, for seven hundred models that we do not need.
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.config import ConfigException, load_kube_config  # noqa: PLC0415

    configuration = Configuration()
    try:
        await load_kube_config(str(path), context, client_configuration=configuration, persist_config=False)
        tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        _lenient(tls)
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    except (OSError, ConfigException, YAMLError, ValueError, TypeError, AttributeError) as error:
        raise BadInput(f"--kubeconfig {path}: {type(error).__name__}: {' '.join(str(error).split())}") from None
    if not configuration.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    base = str(configuration.host).rstrip("/")
    return Access(base, tls, configuration.api_key.get("BearerToken"), configuration.tls_server_name, 300.0)


@lru_cache(maxsize=1)
def _trusting(ca: str) -> ssl.SSLContext:
    """Made again only when the CA has changed: connections belong to their context."""
    tls = ssl.create_default_context(cadata=ca)
    _lenient(tls)
    return tls


def _lenient(tls: ssl.SSLContext) -> None:
    """Many clusters' CAs lack the key identifiers that Python 3.13 asks for by default."""
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
