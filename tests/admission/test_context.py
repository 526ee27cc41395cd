"""Which findings are reported: each cause once, none in dry run, and none about what our injectors added."""

from collections import Counter

import jsonpatch
import orjson

from tests.builders import GPU, request
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.state.objects import state
from webhook.admission.context import MAX_FINDINGS
from webhook.admission.decision import Decision
from webhook.admission.pods import mutate, validate
from webhook.admission.response import warnings_of
from webhook.kube.pod import Pod
from webhook.placement.placer import Placer
from webhook.policy.model import Policy, PolicyFile

DEFAULT = Policy.of(PolicyFile())
DRY_RUN = Policy.load("""
profiles:
  default:
    dryRun: true
    rules: {cpuPerGpu: {action: deny}}
    injectors: {cpuPerGpu: {enabled: true}}
""")
PLAIN, AUTOSCALED = node("a"), node("a", provider="gce://p/z/a")


def both(made: Pod, policy: Policy = DEFAULT, of: dict[str, object] = PLAIN) -> tuple[Decision, Decision]:
    """The decisions of the mutating and then of the validating hook."""
    cluster = state([of])
    first = mutate(request(made), policy, cluster.view(0), Placer(cluster))
    stored = made if first.patch is None else jsonpatch.apply_patch(made, orjson.loads(first.patch))
    return first, validate(request(stored), policy, cluster.view(0), Placer(cluster))


def test_a_cause_that_two_rules_find_is_reported_once_by_the_rule_that_refuses() -> None:
    large = pod(gpus=64)
    for of, want in ((PLAIN, "gpuFits"), (AUTOSCALED, "gpuLimit")):
        _, decision = both(large, of=of)
        reported = [(each.unit, each.action) for each in decision.findings if each.finding.cause]
        assert reported == [(want, "deny")]


def test_in_shadow_the_client_gets_no_warning_and_the_findings_are_those_after_the_injectors() -> None:
    first, second = both(
        pod(containers=[{"name": "main", "resources": {"requests": {GPU: "1"}}}], hostPID=True), DRY_RUN
    )
    assert (first.result, warnings_of(first)) == ("dryRun", [])
    assert (second.result, warnings_of(second)) == ("dryRun", [])
    assert [each.unit for each in second.findings if each.action == "deny"] == ["hostNamespaces"], (
        "the injector would have added the CPU request"
    )


def test_a_finding_names_the_field_that_the_author_wrote() -> None:
    _, decision = both(pod(containers=[{"name": "main", "resources": {"requests": {GPU: "64"}}}]))
    (path,) = [each.finding.path for each in decision.findings if each.action == "deny"]
    assert path == f"spec.containers[0].resources.requests[{GPU}]"


def test_a_bad_quantity_is_reported_where_it_was_written_and_our_own_toleration_is_no_finding() -> None:
    first, _ = both(pod(containers=[{"name": "main", "resources": {"requests": {GPU: "-1"}}}]))
    reported = [(each.unit, each.finding.path) for each in first.findings]
    assert reported == [("gpuQuantity", f"spec.containers[0].resources.requests[{GPU}]")]


def test_each_rule_has_so_many_findings_at_most_whatever_others_found() -> None:
    theft = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "securityContext": {"privileged": True}}
    _, decision = both(pod(containers=[{"name": f"c{number}", **theft} for number in range(MAX_FINDINGS + 5)]))
    assert Counter([each.unit for each in decision.findings if each.unit in ("deviceEnv", "privileged")]) == {
        "deviceEnv": MAX_FINDINGS,
        "privileged": MAX_FINDINGS,
    }
