"""The policy that is exported in these tests, and the names of its objects."""

from typing import Any

from tests.controlplane.api import Api, ApiError

Json = dict[str, Any]
INSIDE, OUTSIDE, OPERATOR, EVERY = "export-inside", "export-outside", "export-operator", "export-every"
LABEL = "export.example/profile"
"""A label in place of the real one, so that an installed webhook does not see these namespaces."""
POLICY = """
classes:
  - {class: inference, labels: {workload-type: [inference]}}
  - {class: training, ownerKinds: [Job], namespaces: [export-*]}
  - {class: elsewhere, labels: {workload-type: [elsewhere]}, namespaces: [elsewhere, class.gpu-admission.io/elsewhere]}
  - {class: labelled, labels: {workload-type: [labelled]}, namespaces: [a, class.gpu-admission.io/labelled]}
  - {class: reserved, labels: {workload-type: [reserved]}, namespaces: [elsewhere]}
  - {class: labelled, labels: {export.example/notebook: ['*']}}
  - {class: labelled, ownerKinds: [JobSet]}
  - {class: training, ownerKinds: ['*'], restartPolicies: [OnFailure, Never]}
profiles:
  default:
    injectors:
      tolerations:
        taints:
          - {key: nvidia.com/gpu, effect: NoSchedule, vendor: nvidia.com}
          - {key: amd.com/gpu, effect: NoExecute, vendor: amd.com}
          - {key: sku, value: gpu, effect: NoSchedule}
      priorityClass:
        classes: {inference: export-high, training: export-low, reserved: export-high, elsewhere: export-entitled,
                  labelled: export-labelled}
    rules:
      gpuLimit: {perContainer: 8, perPod: 10, sizes: [1, 2, 4, 6, 8]}
      priorityClass: {reserved: {export-kept: [elsewhere], system-*: []}}
    exempt:
      - {namespaces: [export-inside], serviceAccounts: [exporter]}
  every: {injectors: {voidDevices: {everyPod: true}}}
"""
"""The default policy with settings that use every part of the export."""
RUNTIMES = ("gvisor", "nvidia", "sandbox")
OVERHEAD = {"sandbox": {"podFixed": {"cpu": "100m", "nvidia.com/gpu": "2"}}}
"""What the API server adds to pods of a RuntimeClass."""


async def refusal(api: Api, body: Json, where: str) -> str:
    """The message with which the API server refuses a pod; "" if it accepts it."""
    try:
        await api.create(body, where, dryRun="All")
    except ApiError as error:
        return error.message
    return ""


def other(name: str, **more: Any) -> Json:
    return {"name": name, "image": "i", **more}
