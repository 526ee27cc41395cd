"""A policy, a cluster without nodes, and the decisions about a pod there."""

import json
from typing import Any

from tests.builders import TWO_NODES, ClusterFacts, request
from tests.controlplane.objects import pod
from webhook.admission.decision import Decision
from webhook.admission.pods import mutate, validate
from webhook.kube.pod import PROFILE_LABEL, Pod
from webhook.policy.model import Injectors, Policy, named

POLICY = Policy.load(
    """
classes:
  - {class: inference, labels: {workload-type: [inference]}, namespaces: [prod]}
  - {class: development}
profiles:
  default:
    rules:
      gpuLimit: {perContainer: 4, perPod: 8}
      hostNamespaces: {action: warn}
      gpuFits: {action: off}
    exempt:
      - {namespaces: [ops], serviceAccounts: [exporter]}
      - {namespaces: ["*"], groups: [admins]}
  lenient: {rules: {gpuLimit: {action: warn}}}
  quiet: {dryRun: true}
  silent: {rules: {gpuQuantity: {action: off}}}
  nothing:
    injectors: """
    + json.dumps({name: {"enabled": False} for name, _ in named(Injectors())})
)
PROFILES = {name: {PROFILE_LABEL: name} for name in ("default", "lenient", "quiet", "silent", "nothing")}
CLUSTER = ClusterFacts(
    priority_classes=TWO_NODES.priority_classes,
    offers=TWO_NODES.offers,
    labels=TWO_NODES.labels,
    taints=TWO_NODES.taints,
    namespaces={
        **PROFILES,
        "plain": {},
        "odd": {PROFILE_LABEL: "no such"},
        "prod": {PROFILE_LABEL: ""},
        "ops": {PROFILE_LABEL: ""},
    },
)


def mutated(obj: Pod | None, namespace: str = "default", cluster: ClusterFacts = CLUSTER, **tweaks: Any) -> Decision:
    return mutate(request(obj, namespace=namespace, **tweaks), POLICY, cluster.view, None)


def validated(obj: Pod | None, namespace: str = "default", cluster: ClusterFacts = CLUSTER, **tweaks: Any) -> Decision:
    return validate(request(obj, namespace=namespace, **tweaks), POLICY, cluster.view, None)


def reported(decision: Decision) -> list[tuple[str, str, str]]:
    return [(unit, action, finding.path) for unit, action, finding in decision.findings]


GREEDY = pod(gpus=5)
HOSTILE = pod(hostPID=True)
