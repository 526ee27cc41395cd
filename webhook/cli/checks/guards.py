"""Checks what protects the webhook: admission policies that guard its configuration, and network policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from webhook.cli.checks.result import NAME, Result
from webhook.cli.cluster.answers import replica_pods
from webhook.cli.cluster.kinds import OUR_NAMESPACE
from webhook.cli.cluster.snapshot import Snapshot
from webhook.policy.model import Policy
from webhook.rules.device_annotations import DeviceAnnotations
from webhook.text import listed

_RUNNING_PODS: Final = "gpu-admission-running-pods"
_GUARDS: Final = {
    "gpu-admission-own-configuration": "whoever takes over a replica may widen its webhooks",
    "gpu-admission-profile-label": "whoever may label a namespace opts it out, or chooses its profile",
    "gpu-admission-preemption": "whoever may create pods, in any namespace, preempts the pods of all others",
    _RUNNING_PODS: "while no replica answers, annotations that ask for devices may be added to pods",
}


def guards(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """The ValidatingAdmissionPolicies of the manifests are bound and deny, and agree with the policy."""
    bound = {
        binding["spec"].get("policyName")
        for binding in snapshot.of("ValidatingAdmissionPolicyBinding")
        if "Deny" in (binding["spec"].get("validationActions") or ())
    }
    missing = {name: risk for name, risk in _GUARDS.items() if name not in bound}
    for name, risk in missing.items():
        file = "71-running-pods.yaml" if name == _RUNNING_PODS else "70-guards.yaml"
        yield Result("guards", "warn", f"{name} does not guard: {risk}", f"install it: manifests/{file}")
    profiles = {name: policy.profile(name)[1] for name in policy.file.profiles}
    other = [
        name for name, each in profiles.items() if each.shadow or each.rules.device_annotations != DeviceAnnotations()
    ]
    if other and _RUNNING_PODS not in missing:
        text = f"{_RUNNING_PODS} refuses by the shipped settings of deviceAnnotations, profile {listed(other)} by others or not"
        yield Result("guards", "warn", text, "correct manifests/71-running-pods.yaml, and apply it")
    elif not missing:
        yield Result("guards", "ok", listed(sorted(_GUARDS)))


def network_policy(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """A NetworkPolicy, or the check of client certificates, keeps pods away from the webhook."""
    ours = [name for namespace, name in snapshot.named("NetworkPolicy") if namespace == OUR_NAMESPACE]
    if ours or _wants_client_certificates(snapshot):
        yield Result("networkPolicy", "ok", listed(ours) or "none; clients show a certificate (--client-ca)")
    else:
        step = "install manifests/components/client-certificate, or manifests/optional/network-policy.yaml"
        yield Result("networkPolicy", "warn", "none: every pod may reach the webhook", step)


def _wants_client_certificates(snapshot: Snapshot) -> bool:
    """Whether all replicas run with --client-ca."""
    with_option = [
        any(str(argument).startswith("--client-ca") for argument in container.get("args") or ())
        for pod in replica_pods(snapshot)
        for container in pod["spec"].get("containers") or ()
        if container.get("name") == NAME
    ]
    return bool(with_option) and all(with_option)
