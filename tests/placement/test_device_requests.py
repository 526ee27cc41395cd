"""What a request of a claim says: selectors, alternatives, constraints, tolerations; and what is left to the scheduler."""

import pytest

from tests.devices import dra
from tests.placement.claiming import ATTRIBUTES, CAPACITY, TWO, Object, claiming, cluster
from tests.placement.placed import names, placed
from webhook.placement.devices import LEFT_ALONE

# --- what is left to the scheduler ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        pytest.param(None, "the template of its claim is not known", id="no template"),
        pytest.param(dra.template("t", dra.exactly(of="x")), "the class of its claim is not known", id="no class"),
        pytest.param(
            dra.template("t", dra.exactly(selector="ip('1.1.1.1').isGlobalUnicast()")),
            LEFT_ALONE,
            id="a function that we do not know",
        ),
        pytest.param(
            dra.template("t", dra.exactly(selector=f"{ATTRIBUTES}.nothing == 1")),
            LEFT_ALONE,
            id="an error, which ends the scheduler's search too",
        ),
        pytest.param(
            dra.template("t", dra.exactly(2), constraints=[{"matchExpression": "true"}]),
            "a constraint of its claim is left to the scheduler",
            id="a constraint of a kind that is not known",
        ),
        pytest.param(
            dra.template(
                "t",
                {"name": "r", "firstAvailable": [{"name": "s", **dra.exactly(2)}]},
                constraints=[{"matchAttribute": f"{dra.DRIVER}/productName", "requests": ["r/s"]}],
            ),
            "a constraint of its claim is left to the scheduler",
            id="a constraint for one alternative",
        ),
        pytest.param(
            {"metadata": {"namespace": "team-a", "name": "t"}, "spec": {"spec": {"devices": {"requests": ["x"]}}}},
            "its claim cannot be read",
            id="malformed",
        ),
    ],
)
def test_left_to_the_scheduler(template: Object | None, reason: str) -> None:
    of = cluster(TWO, [template] if template else [])
    assert placed(of, claiming("t")).reason == reason


def test_claims_that_may_not_be_read_are_left_to_the_scheduler() -> None:
    of = cluster(TWO, [dra.template("t", dra.exactly())])
    of.withdraw("resourceclaims")
    assert placed(of, claiming("t")).reason == "no claim of devices is known here"


def test_a_claim_for_no_gpu() -> None:
    card = {"name": "nic-0", "attributes": {"type": {"string": "gpu"}}}
    of = cluster(
        [dra.device_slice("a", [card], driver="net.example.com")],
        [dra.template("t", dra.exactly(of="net"))],
        classes=[{"metadata": {"name": "net"}, "spec": {}}],
    )
    assert placed(of, claiming("t")).reason == "no GPU is asked for"


def test_devices_of_no_single_node_are_left_to_the_scheduler() -> None:
    fabric = dra.device_slice("f", [dra.gpu(0)], nodeName=None, allNodes=True)
    of = cluster([*TWO, fabric], [dra.template("t", dra.exactly())])
    assert placed(of, claiming("t")).reason == LEFT_ALONE
    of.forget("resourceslices", "slice-f")
    assert names(placed(of, claiming("t")))
    of.seen("resourceslices", fabric, 0)
    assert placed(of, claiming("t")).reason == LEFT_ALONE


# --- selectors, alternatives, constraints -----------------------------------------------------------------------------


def test_selectors_choose_the_model_and_the_memory() -> None:
    slices = [dra.gpus_of("a", 8, "A100"), dra.gpus_of("b", 8, "H100")]
    h100 = dra.template("h100", dra.exactly(selector=f'{ATTRIBUTES}.productName.startsWith("H")'))
    large = dra.template("large", dra.exactly(selector=f'{CAPACITY}.memory.compareTo(quantity("90Gi")) > 0'))
    of = cluster(slices, [h100, large])
    assert names(placed(of, claiming("h100"))) == ["b"]
    assert placed(of, claiming("large")).reason == "no node fits"


def test_the_first_alternative_comes_first_whatever_the_score() -> None:
    slices = [dra.gpus_of("a", 2, "A100"), dra.gpus_of("b", 8, "H100")]
    wanted = [
        {"name": model, **dra.exactly(selector=f'{ATTRIBUTES}.productName == "{model}"')} for model in ("H100", "A100")
    ]
    of = cluster(slices, [dra.template("any", {"firstAvailable": wanted}), dra.template("one", dra.exactly())])
    assert names(placed(of, claiming("one"))) == ["a", "b"]
    found = placed(of, claiming("any"))
    assert (names(found), found.decided) == (["b", "a"], "alternatives")


def with_attribute(name: str, *values: int) -> Object:
    """A node with a GPU for each value of its attribute `card`."""
    devices = [dra.gpu(index, on=name) for index in range(len(values))]
    for device, value in zip(devices, values, strict=True):
        device["attributes"]["card"] = {"int": value}
    return dra.device_slice(name, devices)


CARD = f"{dra.DRIVER}/card"


@pytest.mark.parametrize(
    ("requests", "constraints", "found"),
    [
        pytest.param([dra.exactly(3)], [{"matchAttribute": CARD}], ["b"], id="three that are equal"),
        pytest.param([dra.exactly(4)], [{"matchAttribute": CARD}], [], id="four that are equal"),
        pytest.param([dra.exactly(4)], [{"distinctAttribute": CARD}], ["a"], id="four that differ"),
        pytest.param([dra.exactly(2)], [{"distinctAttribute": CARD}], ["a", "b"], id="two that differ"),
        pytest.param([dra.exactly()] * 3, [{"distinctAttribute": CARD}], ["a"], id="of three requests"),
        pytest.param(
            [dra.exactly(2), dra.exactly(2)],
            [{"matchAttribute": CARD, "requests": ["r0"]}, {"distinctAttribute": CARD, "requests": ["r1"]}],
            ["b"],
            id="each request its own",
        ),
        pytest.param([dra.exactly()], [{"distinctAttribute": f"{dra.DRIVER}/none"}], [], id="what no device has"),
    ],
)
def test_constraints_compare_the_devices_of_a_claim(
    requests: list[Object], constraints: list[Object], found: list[str]
) -> None:
    slices = [with_attribute("a", 0, 1, 2, 3), with_attribute("b", 0, 0, 0, 1)]
    of = cluster(slices, [dra.template("t", *requests, constraints=constraints)])
    assert names(placed(of, claiming("t"))) == found


def test_devices_of_two_claims_are_not_compared() -> None:
    of = cluster(
        [with_attribute("a", 0, 0)], [dra.template("t", dra.exactly(), constraints=[{"distinctAttribute": CARD}])]
    )
    assert names(placed(of, claiming("t", "t"))) == ["a"]


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_a_constraint_on_an_attribute_that_is_not_kept_or_is_a_list_is_left_to_the_scheduler(kind: str) -> None:
    """A UUID has one value for each device of a cluster. No device had it then, and the pod was said to fit nowhere."""
    listed = dra.device_slice("x", [dra.gpu(0) | {"attributes": {"cards": {"ints": [1, 2]}}}])
    every = {"metadata": {"name": "every"}, "spec": {}}
    templates = [
        dra.template(name, dra.exactly(of="every"), constraints=[{kind: f"{dra.DRIVER}/{name}"}])
        for name in ("uuid", "cards")
    ]
    of = cluster([*[dra.gpus_of(f"n{i}", 2) for i in range(40)], listed], templates, classes=[every], nodes=["n0", "x"])
    for name in ("uuid", "cards"):
        assert placed(of, claiming(name)).reason == LEFT_ALONE
