"""A webhook that allows everything and remembers what it was asked: which requests the shipped hooks match."""

import json
import ssl
import tempfile
import threading
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import trustme

from tests.controlplane.objects import made
from tests.manifests.files import Json
from webhook.kube.pod import PROFILE_LABEL

LABEL = "recorder.example/profile"
"""In place of the real label, so that a webhook that is installed meanwhile has no part in this."""


class Recorder:
    """`with Recorder() as asked:`; `asked.configuration(…)` is a shipped configuration that calls this one instead.

    `answer`: gives the answer to a path and a body; without, everything is allowed."""

    def __init__(self, answer: Callable[[str, bytes], bytes] | None = None) -> None:
        self._answer = answer or (lambda _, body: allowed(body))
        self.reviews: list[tuple[str, Json]] = []
        """Path and review, in the order in which they came."""
        self.bodies: list[tuple[str, bytes]] = []
        """The same, as they came."""
        self.in_force = False
        """For a test to remember that the API server asks by now."""

    def __enter__(self) -> Self:
        authority = trustme.CA()
        self._ca = authority.cert_pem.bytes()
        reviews, bodies, answer = self.reviews, self.bodies, self._answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = self.rfile.read(int(self.headers["Content-Length"]))
                path = self.path.split("?")[0]
                reviews.append((path, json.loads(asked)["request"]))
                bodies.append((path, asked))
                body = answer(path, asked)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.bytes())
            pem.flush()
            context.load_cert_chain(pem.name)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def configuration(self, shipped: Json) -> Json:
        """The shipped configuration under another name and for another label, with the address of this server."""
        found: dict[str, Any] = json.loads(json.dumps(shipped).replace(PROFILE_LABEL, LABEL))
        found["metadata"] = {"name": "recorder"}
        for hook in found["webhooks"]:
            path = f"{hook['clientConfig']['service']['path']}-{hook['name']}"
            url = f"https://127.0.0.1:{self._server.server_address[1]}{path}"
            hook["clientConfig"] = {"url": url, "caBundle": b64encode(self._ca).decode()}
        return found

    def of_new_pods(self, label: str) -> Json:
        """The configuration of somebody's hook that changes new pods with this label. By its name it comes after ours."""
        hook = {
            "name": "recorder.example.com",
            "clientConfig": {"service": {"path": "/"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "objectSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        return self.configuration(made("MutatingWebhookConfiguration", webhooks=[hook]))

    def asked(self, name: str) -> list[str]:
        """The webhooks that were asked about objects of this name, sorted: "mutate.gpu-admission.io"."""
        found = []
        for path, request in self.reviews:
            metadata = (request.get("object") or {}).get("metadata", {})
            if name in (request.get("name"), metadata.get("name")):
                found.append(path.split("-", 1)[1])
        return sorted(found)


def allowed(body: bytes, patch: list[Json] | None = None) -> bytes:
    """The answer to a review, with a change of its object."""
    response: Json = {"uid": json.loads(body)["request"]["uid"], "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": b64encode(json.dumps(patch).encode()).decode()}
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**kind, "response": response}).encode()
