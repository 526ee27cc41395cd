"""How much less a pod must ask for, so that in all it asks for no more than there is."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders import container
from tests.controlplane.objects import pod
from webhook.kube.less import each_at_most, less, who_asks
from webhook.kube.pod import Pod
from webhook.kube.pod_requests import total_requests
from webhook.text import amount_number

CPU = st.sampled_from([None, "100m", "2", "7500m", "16"])


def asks(cpu: str | None, name: str = "main", **more: Any) -> dict[str, Any]:
    return container(name, gpu=None, limits={} if cpu is None else {"cpu": cpu}, **more)


def first(cpu: str | None, policy: str | None = None) -> dict[str, Any]:
    return asks(cpu, "first", **({"restartPolicy": policy} if policy else {}))


PODS = st.builds(
    lambda many, init, whole, overhead: pod(
        "p",
        containers=[asks(cpu, f"c{at}") for at, cpu in enumerate(many)],
        init=init,
        **({"resources": {"requests": {"cpu": whole}}} if whole else {}),
        **({"overhead": {"cpu": overhead}} if overhead else {}),
    ),
    st.lists(CPU, min_size=1, max_size=3),
    st.lists(st.builds(first, CPU, st.sampled_from([None, "Always"])), max_size=3),
    st.sampled_from([None, None, None, "4", "32"]),
    CPU,
)


@given(PODS, st.integers(1, 48_000))
@example(pod("p", containers=[asks("2")], init=[first("6", "Always"), first("8")]), 10_000).via("a sidecar before it")
@example(pod("p", containers=[asks("8")], init=[first("8")]), 4_000).via("init container and container ask for as much")
def test_with_what_is_said_the_pod_asks_for_no_more_and_for_all_that_it_may(made: Pod, most: int) -> None:
    total = total_requests(made).get("cpu", 0)
    if most >= total:
        return
    found = less(made, "cpu", most)
    if found is None:
        overhead = total_requests({"spec": {"overhead": made["spec"].get("overhead"), "containers": []}}).get("cpu", 0)
        assert most - overhead < 6, "no container could ask for a thousandth of a CPU"
        return
    assert 0 < found.amount < found.before
    assert total_requests(found.change(amount_number("cpu", found.amount)))["cpu"] <= most
    assert total_requests(found.change(f"{found.amount + 1}m"))["cpu"] > most


@pytest.mark.parametrize(
    ("cpus", "where"),
    [
        pytest.param(("4", "500m"), ' in container "c0"', id="one of two"),
        pytest.param(("4", "3"), " in each container", id="both"),
        pytest.param(("4",), "", id="the only one"),
        pytest.param(("2", "1"), None, id="none"),
    ],
)
def test_no_container_asks_for_more_than_one_may(cpus: tuple[str, ...], where: str | None) -> None:
    made = pod(containers=[container(f"c{at}", resources={"limits": {"cpu": each}}) for at, each in enumerate(cpus)])
    found = each_at_most(made, "cpu", 2000)
    assert (found and found.where) == where
    if found is not None:
        limits = [each["resources"]["limits"]["cpu"] for each in found.change("2")["spec"]["containers"]]
        assert limits == ["2" if each in "34" else each for each in cpus]


def test_of_very_many_containers_no_amount_is_looked_for() -> None:
    assert less(pod("p", containers=[asks("8", f"c{at}") for at in range(17)]), "cpu", 8000) is None


WHERE = [
    pytest.param({"containers": [asks("8")]}, "", "", id="one container"),
    pytest.param({"containers": [asks("8")], "overhead": {"cpu": "1"}}, "", "", id="one container and overhead"),
    pytest.param({"containers": [asks("8"), asks("1", "b")]}, ' in container "main"', "", id="the larger of two"),
    pytest.param({"containers": [asks("8"), asks("8", "b")]}, " in each container", "", id="neither alone"),
    pytest.param({"containers": [asks("1")], "init": [first("8")]}, ' in init container "first"', "first", id="init"),
    pytest.param({"containers": [asks("8")], "init": [first("8")]}, " in each container", "", id="both as much"),
    pytest.param({"containers": [asks("1")], "init": [first("8", "Always")]}, ' in sidecar "first"', "", id="sidecar"),
    pytest.param(
        {"containers": [asks("1")], "resources": {"limits": {"cpu": "8"}}},
        ' in container "main"',
        "",
        id="a limit of the pod",
    ),
    pytest.param({"resources": {"requests": {"cpu": "8"}}}, " in spec.resources", "", id="the whole pod"),
    pytest.param({"containers": [asks("1")], "overhead": {"cpu": "8"}}, None, "", id="overhead alone"),
    pytest.param({"containers": [asks(None)]}, None, "", id="nothing is asked for"),
]


WHO = [
    pytest.param({"containers": [asks("8")]}, "", "", id="one container"),
    pytest.param(
        {"containers": [asks("8"), asks("1", "b")]}, "", ' (8 in container "main", 1 in container "b")', id="two",
    ),
    pytest.param(
        {"containers": [asks("1")], "init": [first("8", "Always")]}, "",
        ' (1 in container "main", 8 in sidecar "first")', id="a sidecar",
    ),
    pytest.param({"containers": [asks("1")], "init": [first("8")]}, 'init container "first" ', "", id="an init container"),
    pytest.param(
        {"containers": [asks("1")], "init": [first("2", "Always") | {"name": "side"}, first("8")]},
        'init container "first" with its sidecars ', "", id="an init container beside a sidecar",
    ),
    pytest.param({"containers": [asks("1")], "resources": {"requests": {"cpu": "8"}}}, "", "", id="the whole pod"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "who", "parts"), WHO)
def test_who_asks_for_what_no_container_states(spec: dict[str, Any], who: str, parts: str) -> None:
    assert who_asks(pod("p", 0, **spec), "cpu") == (who, parts)


@pytest.mark.parametrize(("spec", "where", "init"), WHERE)
def test_where_a_pod_may_ask_for_less(spec: dict[str, Any], where: str | None, init: str) -> None:
    made = pod("p", 0, **spec)
    found = less(made, "cpu", 4_000 if total_requests(made).get("cpu", 0) > 4_000 else 500)
    who = f'init container "{init}" ' if init else ""
    assert (found and found.where, who_asks(made, "cpu").who) == (where, who)
