"""Exemptions from the rules: which requests they cover. Labels never count."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.builders import request
from tests.controlplane.objects import pod
from webhook.kube.pod import Pod
from webhook.kube.review import Request
from webhook.policy.exemptions import Exemption

EXPORTER = Exemption(namespaces=("monitoring",), service_accounts=("dcgm-*",))
OPERATOR = Exemption(namespaces=("*",), users=("system:serviceaccount:gpu-operator:*",))
DEBUGGER = Exemption(namespaces=("team-*",), groups=("platform",))
WHOLE = Exemption(namespaces=("gpu-operator",))


def by(namespace: str, user: str = "system:serviceaccount:kube-system:daemon-set-controller", *groups: str) -> Request:
    return request(None, namespace=namespace, user=user, groups=groups)


NOT_EXEMPT: dict[str, tuple[Exemption, Request, Pod]] = {
    "the right account in another namespace": (EXPORTER, by("team-a"), pod(serviceAccountName="dcgm-exporter")),
    "another account in the right namespace": (EXPORTER, by("monitoring"), pod(serviceAccountName="grafana")),
    "no account, which is the default one": (EXPORTER, by("monitoring"), pod()),
    "a label with the name of the account": (
        EXPORTER,
        by("monitoring"),
        pod(labels={"serviceAccountName": "dcgm-exporter"}),
    ),
    "another user": (OPERATOR, by("team-a", "system:serviceaccount:team-a:operator"), pod()),
    "a user without the group": (DEBUGGER, by("team-a", "jane", "tenants"), pod()),
    "a namespace with the same beginning": (WHOLE, by("gpu-operator-2"), pod()),
}
EXEMPT: dict[str, tuple[Exemption, Request, Pod]] = {
    "an exporter by its account": (EXPORTER, by("monitoring"), pod(serviceAccountName="dcgm-exporter")),
    "an account by its old field": (EXPORTER, by("monitoring"), pod(serviceAccount="dcgm-exporter")),
    "an operator by its user name": (
        OPERATOR,
        by("team-a", "system:serviceaccount:gpu-operator:gpu-operator"),
        pod(),
    ),
    "a debugger by group": (DEBUGGER, by("team-a", "jane", "tenants", "platform"), pod()),
    "a whole namespace": (WHOLE, by("gpu-operator"), pod()),
}


@pytest.mark.parametrize(("exemption", "asked", "subject"), NOT_EXEMPT.values(), ids=NOT_EXEMPT)
def test_who_is_not_exempt(exemption: Exemption, asked: Request, subject: Pod) -> None:
    assert not exemption.covers(asked, subject)


@pytest.mark.parametrize(("exemption", "asked", "subject"), EXEMPT.values(), ids=EXEMPT)
def test_who_is_exempt(exemption: Exemption, asked: Request, subject: Pod) -> None:
    assert exemption.covers(asked, subject)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"namespaces": ()}, "at least 1 item"),
        ({"namespaces": ("*",)}, "exempts everybody"),
        ({"namespaces": ("*",), "serviceAccounts": ("dcgm-exporter",)}, "can be made by every tenant"),
    ],
    ids=["no namespace", "every namespace", "an account of any namespace"],
)
def test_an_exemption_that_every_tenant_could_use_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Exemption.model_validate(settings)
