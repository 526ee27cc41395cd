"""What the guard of pods that exist (manifests/71-running-pods.yaml) refuses, by the rule deviceAnnotations of a profile.

The guard is an admission policy that the API server evaluates while no replica answers. Its other variables are in the file.
"""

from collections.abc import Mapping
from textwrap import dedent
from typing import Final

from webhook.export.matching import wrapped
from webhook.export.variables import MADE
from webhook.kube.cel import any_of, asks_for_gpu, gpu_containers
from webhook.policy.model import DEFAULT_PROFILE, Policy

RUNNING_PODS: Final = "gpu-admission-running-pods"


def running_pods(policy: Policy) -> Mapping[str, str]:
    """The expressions of its variables by name, for the profile `default`. They read the keys of annotations that were `added`,
    and of those that were `changed` in any way."""
    rule = policy.profile(DEFAULT_PROFILE)[1].rules.device_annotations
    refused = any_of([check.bad for check in rule.exported(policy.gpus) if not (check.only_warn or check.only_new)])
    found = {
        "all": MADE,
        "gpuContainers": gpu_containers("variables.all", policy.gpus),
        "asksForGpu": asks_for_gpu(policy.gpus),
        "refused": f"variables.added.filter(k, {refused})",
        "ofSchedulers": f"variables.changed.filter(k, {rule.written_by_scheduler})",
    }
    return {name: dedent(wrapped(expression, 1)) for name, expression in found.items()}
