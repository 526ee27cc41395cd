"""The checks of `gpu-admission doctor`: of the installation, the policy and the cluster. Each is a function and a line here.

To add one: also a row in docs/documents.md, and a case in `tests/cli/checks/test_problems.py` that breaks what it looks at, or in
`tests/e2e/test_doctor.py` if only a cluster writes that.
"""

from collections.abc import Iterator
from typing import Final

from webhook.cli.checks import (
    budgets,
    certificate,
    configurations,
    descheduler,
    guards,
    guesses,
    nodes,
    policy_references,
    replicas,
)
from webhook.cli.checks.result import Check, Result
from webhook.policy.model import Policy
from webhook.whatif.cluster.snapshot import Snapshot

CHECKS: Final = (
    Check("webhooks", configurations.KINDS, configurations.webhooks),
    Check("matchConditions", configurations.KINDS, configurations.match_conditions),
    Check("templates", configurations.KINDS, configurations.templates),
    Check("caBundle", configurations.KINDS, certificate.ca_bundles),
    Check("certificate", (*configurations.KINDS, "ServingCertificate"), certificate.served),
    Check("endpoints", ("EndpointSlice",), replicas.endpoints),
    Check("versions", ("Pod",), replicas.versions),
    Check("replicas", ("ReplicaMetrics",), replicas.answering),
    Check("policyLoaded", ("Pod",), replicas.policy_loaded),
    Check("gpuMetrics", ("Pod",), replicas.gpu_metrics),
    Check("apiServer", ("ApiServerVersion",), replicas.api_server),
    Check("failOpen", ("ApiServerMetrics",), replicas.fail_open),
    Check("otherWebhooks", (configurations.MUTATING,), configurations.other_webhooks),
    Check(
        "mutatingPolicies",
        ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "PriorityClass"),
        configurations.mutating_policies,
    ),
    Check("descheduler", ("Pod", "Namespace", "DeschedulerPolicy"), descheduler.descheduler),
    Check("guards", ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"), guards.guards),
    Check("networkPolicy", ("NetworkPolicy",), guards.network_policy),
    Check("namespaces", ("Namespace",), policy_references.namespaces),
    Check("classes", ("Namespace",), policy_references.classes),
    Check("priorityClasses", ("PriorityClass",), policy_references.priority_classes),
    Check("guessedClasses", ("Namespace", "PriorityClass", "ResourceQuota"), guesses.guessed_classes),
    Check("preemption", ("Namespace", "PriorityClass", "ValidatingAdmissionPolicy"), guards.preemption),
    Check("policyTaints", ("Node",), policy_references.taints),
    Check("policyLabels", ("Node",), policy_references.labels),
    Check("topologySpread", ("Node",), policy_references.topology_spread),
    Check("nodes", ("Node",), nodes.health),
    Check("taints", ("Node", "Pod"), nodes.pods_without_gpus),
    Check("sameNames", ("Node",), nodes.same_names),
    Check("twoStacks", ("Node", "ResourceSlice"), nodes.two_stacks),
    Check("decisions", ("Namespace", "Pod"), nodes.decisions),
    Check("budgets", ("Pod", "PodDisruptionBudget"), budgets.budgets),
)
"""In the order in which results are printed."""
_GRANT: Final = "ask for it; docs/rights.md has ClusterRoles with all that doctor reads"


def run_checks(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """The results of all checks; unknown for a check whose kinds could not be read."""
    for check in CHECKS:
        if missing := next((kind for kind in check.reads if kind in snapshot.missing), None):
            why = snapshot.missing[missing]
            yield Result(check.name, "unknown", why, _GRANT if why.startswith("no right to") else "")
        elif isinstance(found := check.find(snapshot, policy), str):
            yield Result(check.name, "ok", found)
        else:
            yield from [each._replace(check=check.name) for each in found]
