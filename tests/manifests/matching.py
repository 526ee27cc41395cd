"""Writes into the manifests what is generated of their expressions: the match conditions of the webhooks for pods, and the
variables of the guard of pods that exist. `python -m tests.manifests.matching`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent

from tests.manifests.files import MANIFESTS
from webhook.export.matching import conditions_for, wrapped
from webhook.export.variables import MADE
from webhook.kube.cel import any_of, asks_for_gpu, gpu_containers
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.whatif.offline import load_policy

FILES = ("80-mutating.yaml", "90-validating.yaml", "71-running-pods.yaml")
RUNNING_PODS = "gpu-admission-running-pods"
_NAME = re.compile(r"( *)(?:- )?name: (\S+)$")
_BEGINS = re.compile(r"( +)expression: \|-$")
Expressions = Mapping[tuple[str, str], str]
"""By the name of the webhook or guard, and that of the condition or variable."""


def files() -> dict[Path, str]:
    """Each file with the expressions in it, as it should be."""
    policy, paths = load_policy(), [MANIFESTS / name for name in FILES]
    wanted = {
        **{
            (hook, each["name"]): each["expression"] for hook, found in conditions_for(policy).items() for each in found
        },
        **{(RUNNING_PODS, name): expression for name, expression in running_pods(policy).items()},
    }
    return {path: "\n".join([*_written(path.read_text().splitlines(), wanted), ""]) for path in paths}


def running_pods(policy: Policy) -> Mapping[str, str]:
    """The expressions of the variables of the guard of pods that exist, by name: what the rule deviceAnnotations of the profile
    `default` refuses. They read the keys of annotations that were `added`, and of those that were `changed` in any way."""
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


def _written(lines: list[str], wanted: Expressions) -> Iterator[str]:
    of, expression, within = "", None, ""
    for line in lines:
        if named := _NAME.match(line):
            within = ""
            if len(named[1]) == 2:
                of = named[2]
            expression = wanted.get((of, named[2]))
        if within and not line.startswith(within):
            within = ""
        if not within:
            yield line
        if expression is not None and (begins := _BEGINS.match(line)):
            within = f"{begins[1]}  "
            yield from (f"{within}{part}" for part in expression.splitlines())


def main() -> None:
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
