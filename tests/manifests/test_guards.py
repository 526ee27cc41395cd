"""The guards that the API server evaluates by itself. Everything here is a dry run: it passes admission, and leaves no trace."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.api import Api, ApiError, refusal, wait_until
from tests.controlplane.objects import made
from tests.controlplane.plane import ControlPlane
from tests.manifests.files import AUTHORITY, HOOKS, Json
from webhook.kube.pod import PROFILE_LABEL

pytestmark = pytest.mark.controlplane


# --- Our own webhook configurations -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def our_kubeconfig(hooks: ControlPlane) -> Path:
    """With the token of the ServiceAccount of the installation."""
    return hooks.kubeconfig_for("gpu-admission", "gpu-admission")


@pytest.fixture
async def us(our_kubeconfig: Path, api: Api) -> AsyncIterator[Api]:
    """Our account, once the guard is there: the API server takes a moment to compile one that was just applied."""
    async with Api.of(our_kubeconfig) as client:
        await wait_until(partial(_guarded, client, api), 120, "the guard of our account")
        yield client


GUARDED = "gpu-admission changes nothing in its webhook configurations but caBundle"


async def _guarded(us: Api, api: Api) -> bool:
    none = await api.patch(HOOKS[0], "gpu-admission", [{"op": "remove", "path": "/webhooks"}], dryRun="All")
    return GUARDED in await refusal(us.replace(none, dryRun="All"))


def hook(field: str) -> str:
    return f"/webhooks/0/{field}"


SECRETS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["*"], "scope": "*"}
NOT_OURS: list[tuple[str, list[Json]]] = [
    ("the objects it is asked about", [{"op": "add", "path": hook("rules/-"), "value": SECRETS}]),
    ("a label of the objects", [{"op": "add", "path": hook("objectSelector"), "value": {"matchLabels": {"a": "b"}}}]),
    ("the conditions", [{"op": "remove", "path": hook("matchConditions")}]),
    ("the name of a webhook", [{"op": "replace", "path": hook("name"), "value": "another.gpu-admission.io"}]),
    ("all webhooks", [{"op": "remove", "path": "/webhooks"}]),
    ("a label of the configuration", [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
    ("another server", [{"op": "add", "path": hook("clientConfig"), "value": {"url": "https://198.51.100.7/"}}]),
]


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize("change", [pytest.param(change, id=what) for what, change in NOT_OURS])
async def test_our_account_may_not_change(us: Api, api: Api, kind: str, change: list[Json]) -> None:
    """Our account may only replace the whole; an administrator tells what the whole would be, and that it is accepted."""
    wanted = await api.patch(kind, "gpu-admission", change, dryRun="All")
    assert GUARDED in await refusal(us.replace(wanted, dryRun="All"))


@pytest.mark.parametrize("kind", HOOKS)
async def test_our_account_may_write_ca_bundle_in_every_webhook(us: Api, kind: str) -> None:
    wanted = await us.get(kind, "gpu-admission")
    for each in wanted["webhooks"]:
        each["clientConfig"]["caBundle"] = AUTHORITY
    after = await us.replace(wanted, dryRun="All")
    assert {each["clientConfig"]["caBundle"] for each in after["webhooks"]} == {AUTHORITY}


@pytest.mark.parametrize("kind", HOOKS)
async def test_our_account_may_neither_make_nor_delete_a_configuration(us: Api, kind: str) -> None:
    with pytest.raises(ApiError, match="cannot delete resource"):
        await us.request("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s/gpu-admission", dryRun="All")
    with pytest.raises(ApiError, match="cannot create resource"):
        await us.create(made(kind, "new"), dryRun="All")


# --- The label that opts in -------------------------------------------------------------------------------------------

HOME = "guard-people"
EDITOR, ASSIGNER, OF_DEFAULT, OF_CRITICAL = "namespace-editor", "profile-assigner", "assigner-of-default", "of-critical"


def assigns(resource: str, **names: list[str]) -> list[Json]:
    return [{"apiGroups": ["gpu-admission.io"], "resources": [resource], "verbs": ["assign"], **names}]


RULES: dict[str, list[Json]] = {
    EDITOR: [],
    ASSIGNER: assigns("profiles"),
    OF_DEFAULT: assigns("profiles", resourceNames=["default"]),
    OF_CRITICAL: assigns("classes", resourceNames=["inference-critical"]),
}
ENTITLED = "guard-entitled"
"""A namespace that has opted in, and is entitled to a class."""
BEFORE = {None: "guard-outside", "default": "guard-default", "": "guard-empty", "strict": "guard-strict"}
"""The value of the label: a namespace that has it."""


@pytest.fixture(scope="module")
def accounts(applied: ControlPlane) -> Iterator[dict[str, Path]]:
    """Three accounts that may change namespaces, by name: a kubeconfig each. And the namespaces of BEFORE."""
    objects = [namespace(HOME, None), *(namespace(name, value) for value, name in BEFORE.items())]
    objects.append(namespace(ENTITLED, "default", {CLASS + "entitled": ""}))
    resources = ["namespaces", "namespaces/status", "namespaces/finalize"]
    edit = {"apiGroups": [""], "resources": resources, "verbs": ["get", "create", "update", "patch"]}
    for person, rules in RULES.items():
        name = f"guard-{person}"
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subject = {"kind": "ServiceAccount", "name": person, "namespace": HOME}
        account = made("ServiceAccount", person)
        account["metadata"]["namespace"] = HOME
        objects += [account, made("ClusterRole", name, rules=[edit, *rules])]
        objects.append(made("ClusterRoleBinding", name, roleRef=reference, subjects=[subject]))
    with applied.having(*objects):
        yield {person: applied.kubeconfig_for(HOME, person) for person in RULES}


@pytest.fixture
async def people(accounts: dict[str, Path]) -> dict[str, Path]:
    """The same, once the API server has heard of the guards and of the rights of all."""
    profile, critical = namespace("new", "default"), namespace("new", None, {CLASS + "inference-critical": ""})
    refused = [(EDITOR, profile, "profile-assigner"), (EDITOR, critical, "class-assigner")]
    accepted = [(ASSIGNER, profile, ""), (OF_DEFAULT, profile, ""), (OF_CRITICAL, critical, "")]

    async def in_force() -> bool:
        for person, wanted, word in (*refused, *accepted):
            async with Api.of(accounts[person]) as client:
                said = await refusal(client.create(wanted, dryRun="All"))
            assert word in said, said
            assert bool(said) is bool(word), said
        return True

    await wait_until(in_force, 120, "the guards and the rights")
    return accounts


def namespace(name: str, profile: str | None, more: dict[str, str] | None = None) -> Json:
    return made("Namespace", name, labels=(more or {}) | ({} if profile is None else {PROFILE_LABEL: profile}))


async def relabel(person: Api, before: str | None, after: str | None, subresource: str = "") -> Json:
    """As a dry run; the whole object, since `finalize` takes no patch."""
    found = await person.get("Namespace", BEFORE[before])
    labels = found["metadata"]["labels"] | {"team": "a", PROFILE_LABEL: after}
    found["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
    return await person.replace(found, subresource=subresource, dryRun="All")


CLASS = "class.gpu-admission.io/"


@pytest.mark.parametrize("subresource", [pytest.param("", id="object"), pytest.param("status", id="status")])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({CLASS + "inference-critical": ""}, id="set"),
        pytest.param({CLASS + "entitled": None}, id="removed"),
    ],
)
async def test_the_label_of_a_class_is_for_who_may_assign_it(
    people: dict[str, Path], api: Api, change: dict[str, str | None], subresource: str
) -> None:
    """Whoever may assign profiles may not."""
    for person in (EDITOR, ASSIGNER, OF_CRITICAL):
        async with Api.of(people[person]) as client:
            found = await client.get("Namespace", ENTITLED)
            labels = found["metadata"]["labels"] | {"team": person} | change
            found["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}
            if person == OF_CRITICAL and CLASS + "inference-critical" in change:
                await client.replace(found, subresource=subresource, dryRun="All")
                continue
            with pytest.raises(ApiError, match="gpu-admission-class-assigner") as refused:
                await client.replace(found, subresource=subresource, dryRun="All")
            assert f"may not set or remove the label {next(iter(change))}" in refused.value.message


async def test_more_than_two_classes_are_set_one_after_another(people: dict[str, Path], api: Api) -> None:
    """The API server itself bounds the questions about rights."""
    both = {CLASS + "a": "", CLASS + "b": ""}
    await api.create(namespace("new", None, both), dryRun="All")
    with pytest.raises(ApiError, match="at once: at most two"):
        await api.create(namespace("new", None, both | {CLASS + "c": ""}), dryRun="All")


REFUSED = [
    (EDITOR, "default", None, "leaves"),
    (EDITOR, "default", "lax", "changes"),
    (EDITOR, None, "default", "opts in"),
    (EDITOR, None, "", "opts in with an empty value"),
    (OF_DEFAULT, "default", "lax", "changes to a profile that is not theirs"),
    (OF_DEFAULT, "strict", None, "leaves a profile that is not theirs"),
    (OF_DEFAULT, "strict", "default", "takes away from a profile that is not theirs"),
]
ACCEPTED = [
    (EDITOR, "default", "default", "changes another label"),
    (EDITOR, None, None, "changes another label of a namespace outside"),
    (EDITOR, "", "default", "writes out the empty value"),
    (ASSIGNER, "default", None, "leaves"),
    (ASSIGNER, "strict", "lax", "changes"),
    (ASSIGNER, None, "anything", "opts in"),
    (OF_DEFAULT, None, "default", "opts in to the profile that is theirs"),
    (OF_DEFAULT, "default", None, "leaves the profile that is theirs"),
]


def cases(table: list[tuple[str, str | None, str | None, str]]) -> list[Any]:
    return [pytest.param(*row[:3], id=f"{row[0]} {row[3]}") for row in table]


@pytest.mark.parametrize(
    "subresource",
    [pytest.param("", id="object"), pytest.param("status", id="status"), pytest.param("finalize", id="finalize")],
)
@pytest.mark.parametrize(("person", "before", "after"), cases(REFUSED))
async def test_the_label_is_not_for(
    people: dict[str, Path], person: str, before: str | None, after: str | None, subresource: str
) -> None:
    async with Api.of(people[person]) as client:
        with pytest.raises(ApiError, match="gpu-admission-profile-assigner") as refused:
            await relabel(client, before, after, subresource)
    assert refused.value.status == 403
    assert BEFORE[before] in refused.value.message


@pytest.mark.parametrize(("person", "before", "after"), cases(ACCEPTED))
async def test_the_label_is_for(people: dict[str, Path], person: str, before: str | None, after: str | None) -> None:
    async with Api.of(people[person]) as client:
        found = await relabel(client, before, after)
    assert found["metadata"]["labels"].get(PROFILE_LABEL) == after


async def test_a_new_namespace_opts_in_only_by_who_may(people: dict[str, Path]) -> None:
    async with Api.of(people[EDITOR]) as editor, Api.of(people[ASSIGNER]) as assigner:
        with pytest.raises(ApiError, match="may not give it the profile default"):
            await editor.create(namespace("new", "default"), dryRun="All")
        await assigner.create(namespace("new", "default"), dryRun="All")
        await editor.create(namespace("new", None), dryRun="All")
