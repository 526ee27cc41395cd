"""Decides about ResourceClaims and their templates (resource.k8s.io/v1), when they are created.

They are checked at their own creation, since there the author sees the answer, and since a pod may be created before our watch
has seen its template. The API server itself refuses `adminAccess` outside namespaces that have the label
`resource.kubernetes.io/admin-access: "true"`.
"""

from typing import Final

from webhook.admission.context import context_of, decided, exempt, findings_of, profile_of, size_findings
from webhook.admission.decision import IGNORED, Decision
from webhook.errors import BadReview
from webhook.framework.cluster_view import Cluster
from webhook.kube import bounds
from webhook.kube.review import Request
from webhook.policy.model import Policy

SPECS: Final = {"resourceclaims": "spec", "resourceclaimtemplates": "spec.spec"}
"""Where the specification of a claim is, by the resource."""


def validate(request: Request, policy: Policy, cluster: Cluster) -> Decision:
    """Check a claim or a template by the rules for claims. Raises BadReview if it is malformed."""
    if request.operation != "CREATE" or request.object is None or request.subresource:
        return IGNORED
    profile = profile_of(request.namespace, policy, cluster)
    # The rules see a pod with nothing but this claim.
    metadata = request.object.get("metadata") or {}
    pod = {"metadata": {"name": metadata.get("name", ""), "labels": {}}, "spec": {"containers": []}}
    if exempt(request, pod, profile):
        return Decision("allowed", profile.name, policy=policy.hash)
    if excesses := bounds.exceeded_by_size(request.size):
        return decided(request, size_findings(excesses), policy, profile)
    path = SPECS[request.resource]
    try:
        spec = request.object
        for key in path.split("."):
            spec = spec[key]
        path = f"{path}.devices.requests[{{}}]"
        claimed = cluster.asked_by(spec.get("devices") or {}, path)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise BadReview(f"request.object: wanted a {request.kind} of resource.k8s.io/v1, saw another shape") from None
    context = context_of(request, pod, policy, cluster, profile, None, claimed=claimed)
    return decided(request, findings_of(context.pod, context, policy.units[profile.name].of_claims), policy, profile)
