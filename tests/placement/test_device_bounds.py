"""What tenants write of claims costs little, and others none: devices, searches and expressions are bounded.

Covers devices.search, devices.table, devices.claims.
"""

from typing import Any

import pytest

from tests.devices import dra
from tests.placement.claiming import ATTRIBUTES, TWO, claiming, cluster, free, reserve
from tests.placement.placed import names, placed
from webhook.devices import search
from webhook.devices import table as device_table
from webhook.devices.claims import NO_SPEC, Specs
from webhook.placement.devices import LEFT_ALONE

SHARED = [dra.device_slice("a", [dra.gpu(0, allowMultipleAllocations=True, capacity={})])]


def test_devices_that_cannot_be_read_and_too_many_are_left_out() -> None:
    bad = dra.gpu(1) | {"attributes": {"type": {"string": 7}}}
    of = cluster([dra.device_slice("a", [dra.gpu(0), bad, "nothing", {}])], [dra.template("one", dra.exactly())])
    assert names(placed(of, claiming("one"))) == ["a"]
    assert free(of, "a") == 1000
    many = dra.device_slice("b", [dra.gpu(index) for index in range(10_000)])
    of.seen("resourceslices", many, 0)
    assert free(of, "b") == 128_000


def test_attributes_that_tell_devices_apart_are_dropped_and_nodes_stay_equal() -> None:
    by_uuid = dra.template("uuid", dra.exactly(selector=f'{ATTRIBUTES}.uuid == "GPU-n1-0"'))
    of = cluster(
        [dra.gpus_of(f"n{i}", 2) for i in range(40)],
        [by_uuid, dra.template("one", dra.exactly())],
        nodes=[f"n{i}" for i in range(40)],
    )
    assert len(set(of.nodes.columns.devices[:40].tolist())) == 1
    assert len(placed(of, claiming("one")).nodes) == 10
    assert placed(of, claiming("uuid")).reason == LEFT_ALONE
    few = cluster([dra.gpus_of("n0", 2), dra.gpus_of("n1", 2)], [by_uuid], nodes=["n0", "n1"])
    assert names(placed(few, claiming("uuid"))) == ["n1"]


def test_what_tenants_write_is_kept_within_bounds() -> None:
    long = dra.template("long", *[dra.exactly(selector=f"true{' ' * 9000}") for _ in range(2)])
    of = cluster(TWO, [long, dra.template("many", *[dra.exactly() for _ in range(4)])])
    assert placed(of, claiming("long")).reason == "its claims are too large"
    assert placed(of, claiming(*["many"] * 33)).reason == "it has too many claims"
    half = dra.template("half", dra.exactly(selector=f"true{' ' * 9000}"))
    of.seen("resourceclaimtemplates", half, 0)
    assert placed(of, claiming("half")).nodes
    assert placed(of, claiming("half", "half")).reason == "its claims are too large"
    table = of.nodes.devices
    for number in range(5000):
        of.seen(
            "resourceclaimtemplates", dra.template("t", dra.exactly(selector=f"true || {number} > {' ' * 8000}0")), 0
        )
        assert placed(of, claiming("t")).nodes
        assert table.kinds._bytes <= 32 << 20
        if number > 50 and len(table._answers._known) < 40:
            break
    else:
        pytest.fail("the caches are never emptied")


def test_a_search_is_bounded() -> None:
    """Every order of 20 devices would be tried for a claim that cannot be met."""
    requests = [dra.exactly(5, selector=f"{ATTRIBUTES}.index < {limit}") for limit in (20, 20, 20, 4)]
    of = cluster([dra.gpus_of("a", 24)], [dra.template("much", *requests)], nodes=["a"])
    assert placed(of, claiming("much")).reason == LEFT_ALONE


def test_searches_of_one_decision_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 choices on each of thousands of nodes whose first GPU is taken."""
    first = dra.exactly(selector=f"{ATTRIBUTES}.index == 0")
    names_of = [f"n{number}" for number in range(30)]
    claims = [
        dra.claim(name, dra.exactly(), on=name, has=["gpu-0", "gpu-1"][: 1 + i % 2]) for i, name in enumerate(names_of)
    ]
    claims += [
        dra.claim(f"{name}-b", dra.exactly(), on=name, has=[f"gpu-{2 + i % 6}"]) for i, name in enumerate(names_of)
    ]
    much, one = dra.template("much", *[dra.exactly()] * 3, first), dra.template("one", dra.exactly())
    of = cluster([dra.gpus_of(name) for name in names_of], [much, one], claims, nodes=names_of)
    assert placed(of, claiming("much")).reason == "no node fits"
    monkeypatch.setattr(device_table, "_MAX_UNDONE", 1000)
    assert placed(of, claiming("much", priorityClassName="another-shape", nodeSelector={})).nodes == ()
    of.seen("resourceclaimtemplates", dra.template("again", *[dra.exactly()] * 3, first, dra.exactly()), 0)
    assert placed(of, claiming("again")).reason == LEFT_ALONE
    assert placed(of, claiming("one")).nodes, "another decision has all of its work"


def test_claims_for_more_devices_than_a_node_has_are_no_deeper_than_the_stack() -> None:
    """A device that pods share is free for each other, so that 256 requests find one."""
    of = cluster(SHARED, [dra.template("seven", *[dra.exactly() for _ in range(7)])])
    assert placed(of, claiming(*["seven"] * 19)).reason == LEFT_ALONE
    assert placed(of, claiming(*["seven"] * 3)).nodes
    of.pod_seen(claiming(*["seven"] * 32, ranked=["a"]), 0)


def searches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The searches from now on."""
    found: list[Any] = []

    def find(*of: Any) -> Any:
        found.append(of)
        return search.find(*of)

    monkeypatch.setattr(device_table, "find", find)
    return found


@pytest.mark.parametrize(
    ("slices", "most", "left", "every"), [(TWO, 4, 0, 4000), (SHARED, device_table._MAX_HELD, 999, 1000)]
)
def test_the_claims_that_are_reserved_on_one_node_are_bounded(
    monkeypatch: pytest.MonkeyPatch, slices: list[Any], most: int, left: int, every: int
) -> None:
    """Anybody can create pods that wait with a preference for one node. Each changed the node, and all were looked at again."""
    of = cluster(slices, [dra.template(f"t{number}", dra.exactly()) for number in range(300)])
    for number in range(300):
        of.pod_seen(claiming(f"t{number}", name=f"p{number}", ranked=["a"]), 0)
    searched = searches(monkeypatch)
    of.nodes.devices.refresh("a")
    assert len(searched) == most
    assert free(of, "a") == left
    of.expire(1000)
    assert free(of, "a") == every


def test_one_more_claim_on_a_node_is_looked_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    of = cluster(TWO, [dra.template("one", dra.exactly())])
    of.pod_seen(claiming("one", name="first", ranked=["b"]), 0)
    searched = searches(monkeypatch)
    for number in range(9):
        of.pod_seen(claiming("one", name=f"p{number}", ranked=["b"]), 0)
        assert (len(searched), free(of, "b")) == (number + 1, max(0, 6000 - 1000 * number))


def test_a_claim_for_which_nothing_was_left_counts_once_the_node_tells_more_devices() -> None:
    of = cluster(TWO, [dra.template("two", dra.exactly(2)), dra.template("three", dra.exactly(3))])
    for number in range(2):
        of.pod_seen(claiming("three", "two", name=f"p{number}", ranked=["a"]), 0)
    of.pod_seen(claiming("three", name="single", ranked=["a"]), 0)
    assert free(of, "a") == 1000, "only the last fits"
    of.seen("resourceslices", dra.gpus_of("a", 8), 0)
    assert free(of, "a") == 0
    of.pod_gone(claiming("three", name="single"))
    of.pod_gone(claiming("three", "two", name="p0"))
    of.pod_gone(claiming("three", "two", name="p1"))
    assert free(of, "a") == 8000


def test_expressions_that_need_too_much_work_leave_the_pod_alone_and_cost_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8 selectors of 8 requests took 2.3 s on a thousand nodes of 60 models."""
    monkeypatch.setattr(search, "_MAX_WORK", 3000)
    models = [dra.device_slice(name, [dra.gpu(i, f"{name}{i}", name) for i in range(8)]) for name in ("a", "b")]
    loop = f"{[*range(1, 41)]}.all(x, x > 0) && {ATTRIBUTES}.productName != ''"
    many = " && ".join([f"{ATTRIBUTES}.productName != 'x{i}'" for i in range(4)])
    templates = [
        dra.template("loop", dra.exactly(selector=loop)),
        dra.template("many", *[dra.exactly(selector=f"{many} && {i} > -1") for i in range(8)]),
        dra.template("plain", dra.exactly(selector=many)),
    ]
    of = cluster(models, templates)
    for costly in ("loop", "many"):
        assert placed(of, claiming(costly)).reason == LEFT_ALONE
    assert names(placed(of, claiming("plain")))


def test_reading_is_work_and_so_is_looking_at_many_kinds_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 expressions took 3 ms each to compile, and were looked at for 544 kinds of devices, which took 150 ms."""
    wide = " || ".join([f"{ATTRIBUTES}.index == {number}" for number in range(60)])
    short = f"{ATTRIBUTES}.productName != ''"
    templates = [dra.template("wide", dra.exactly(selector=wide)), dra.template("short", dra.exactly(selector=short))]
    of = cluster(TWO, templates)
    monkeypatch.setattr(search, "_MAX_WORK", 5_000)
    assert placed(of, claiming("wide")).reason == LEFT_ALONE
    monkeypatch.setattr(search, "_MAX_WORK", 30_000)
    assert names(placed(of, claiming("wide")))
    monkeypatch.setattr(search, "_MAX_NEW", 3)
    assert placed(of, claiming("short")).reason == LEFT_ALONE
    monkeypatch.setattr(search, "_MAX_NEW", 100)
    assert names(placed(of, claiming("short")))


def test_what_is_reserved_stays_counted_after_anothers_decision_has_used_up_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another tenant's expressions pushed out the results, and an event of the node found no work left to get them again."""
    templates = [dra.template("plain", dra.exactly(selector=f"{ATTRIBUTES}.productName == 'H100'"))]
    templates += [dra.template(f"t{i}", dra.exactly(selector=f"{ATTRIBUTES}.index > {-1 - i}")) for i in range(40)]
    loop = f"{[*range(1, 41)]}.all(x, x > 0) && {ATTRIBUTES}.productName != ''"
    of = cluster([dra.gpus_of("a", 8)], [*templates, dra.template("loop", dra.exactly(selector=loop))], nodes=["a"])
    reserve(of, claiming("plain"))
    monkeypatch.setattr(search, "_MAX_MATCHES", 1024)
    monkeypatch.setattr(search, "_MAX_SELECTORS", 1 << 16)
    for made in templates[1:]:
        placed(of, claiming(made["metadata"]["name"]))
    monkeypatch.setattr(search, "_MAX_WORK", 1000)
    assert placed(of, claiming("loop")).reason == LEFT_ALONE
    of.nodes.devices.refresh("a")
    assert free(of, "a") == 7_000


def test_costly_claims_that_wait_for_a_node_do_not_keep_anothers_from_being_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All reserved claims of a node share the work of one event. The first took all of it."""
    costly = [
        dra.template(
            f"t{i}", dra.exactly(selector=f"{[*range(i + 1, i + 41)]}.all(x, x > 0) && {ATTRIBUTES}.index > 1")
        )
        for i in range(3)
    ]
    plain = dra.template("plain", dra.exactly(4, selector=f"{ATTRIBUTES}.productName == 'H100'"))
    of = cluster([dra.gpus_of("a", 8)], [*costly, plain], nodes=["a"])
    for made in (*costly, plain):
        name = made["metadata"]["name"]
        of.pod_seen(claiming(name, name=name, ranked=["a"]), 0)
    assert free(of, "a") == 1_000
    kinds = of.nodes.devices.kinds
    kinds._matches.clear()
    kinds._selectors.clear()
    monkeypatch.setattr(search, "_MAX_WORK", 5_000)
    of.nodes.devices.refresh("a")
    assert free(of, "a") == 4_000, "what needs more than its part is not counted, and the last is"


def test_the_expressions_that_are_kept_are_bounded_in_bytes() -> None:
    """256 of them could hold 150 MB."""
    of = cluster(TWO, [])
    for number in range(300):
        wide = f"{number} > 0 || {' || '.join([f'{ATTRIBUTES}.index == {i}' for i in range(60)])}"
        of.seen("resourceclaimtemplates", dra.template("t", dra.exactly(selector=wide)), 0)
        placed(of, claiming("t"))
    kinds = of.nodes.devices.kinds
    assert kinds._selectors_bytes == sum([each.size for each in kinds._selectors.values()]) <= search._MAX_SELECTORS
    assert len(kinds._selectors) < 20


def test_the_claims_of_one_namespace_do_not_fill_the_memory_and_are_forgotten_with_their_objects() -> None:
    long = f"{ATTRIBUTES}.productName != '{'x' * 8_000}'"
    specs = Specs()
    for number in range(1_000):
        specs.seen(dra.template(f"t{number}", dra.exactly(selector=f"{number} > -1 && {long}")))
    assert sum(map(len, specs.values())) < 2 << 20
    other = dra.template("other", dra.exactly(selector=long))
    other["metadata"]["namespace"] = "team-b"
    specs.seen(other)
    assert specs["team-b/other"] != NO_SPEC
    for name in [*specs]:
        specs.gone(name)
    specs.seen(dra.template("t", dra.exactly(selector=long)))
    assert specs["team-a/t"] != NO_SPEC
    specs.seen(dra.template("t", dra.exactly(selector=long)))  # changed: it counts once
    assert specs["team-a/t"] != NO_SPEC
