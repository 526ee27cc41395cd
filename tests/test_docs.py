"""Generated pages are current; files that pages name exist; the policies in docs/howto.md work."""

import re
import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests import readers, reference, rooms
from tests.builders import GPUS, UNKNOWN, case
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.document import document
from tests.e2e.test_theft import CELLS
from tests.e2e.theft_vectors import APPLY
from tests.injectors.applied import applied
from tests.state.objects import placer, state
from tests.toys import team_label
from webhook.kube.asked import AskedPod
from webhook.placement.settings import PlacementSettings, Preference
from webhook.policy.model import Policy, PolicyFile

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OURS = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
PAGES = [
    *ROOT.glob("*.md"),
    *(page for name in OURS.split("|") if name != "build" for page in (ROOT / name).rglob("*.md")),
]
QUESTIONS = (ROOT / "CONTRIBUTING.md").read_text().partition("| question | answer | files |\n")[2].partition("\n\n")[0]
ROWS = [row.strip("| ").split(" | ") for row in QUESTIONS.splitlines()[1:]]


@pytest.mark.parametrize(
    ("file", "generated"),
    [
        pytest.param(reference.POLICY, lambda _: document(PolicyFile()), id="the policy"),
        *(pytest.param(DOCS / name, partial(reference.page, name), id=name) for name in reference.PAGES),
        pytest.param(rooms.PAGE, rooms.page, id="the drawing of the rooms"),
    ],
)
def test_what_is_generated_from_the_models_is_current(file: Path, generated: Callable[[str], str]) -> None:
    written = file.read_text()
    assert written == generated(written), "run `make manifests`"


@pytest.mark.parametrize(
    ("removed", "said"),
    [
        pytest.param("", None, id="a whole one"),
        pytest.param(
            "    Karpenter: nothing\n", r"saw a part «Read by:».*without \['Karpenter'\]", id="without a reader"
        ),
        pytest.param(
            "Read by:\n", "team_label: saw no part «Read by:» .*; wanted a line for each", id="without the part"
        ),
    ],
)
def test_an_injector_says_who_reads_what_it_adds(
    removed: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_label, "__doc__", (team_label.__doc__ or "").replace(removed, "", 1 if removed else 0))
    if said is None:
        assert [*readers.read_by(team_label.TeamLabel())] == [*readers.READERS]
        return
    with pytest.raises(ValueError, match=said):
        readers.read_by(team_label.TeamLabel())


def test_the_readme_counts_the_tries_to_take_a_gpu_that_are_refused() -> None:
    tries = [cell for (cell,) in (parameters.values for parameters in CELLS) if cell.opted_in and not cell.out]
    refused = len([cell for cell in tries if cell.verb != APPLY])
    assert f"| {refused} of {refused} refused |" in (ROOT / "README.md").read_text()
    assert (
        f"{refused} pods, debug containers and annotations, all refused. Of {len(tries) - refused} workloads"
        in (DOCS / "ways.md").read_text()
    )


def test_a_page_without_a_place_for_what_is_generated_is_refused() -> None:
    with pytest.raises(ValueError, match=r"docs/rules\.md: wanted the lines <!-- generated .* put them back"):
        reference.page("rules.md", "# Rules\n")


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """A link leads to a file: the site has no pages of folders."""
    text = page.read_text()
    links = [page.parent / link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)]
    named = [ROOT / name for name in re.findall(rf"`((?:{OURS})/[\w./-]+)`", text)]
    assert [str(path) for path in links if not path.is_file()] == []
    assert [str(path) for path in named if not path.exists()] == []


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        pytest.param('<a href="https://kubernetes.io/docs">', [], id="a link to click on"),
        pytest.param('<link rel="canonical" href="https://example.com/a.html">', [], id="the name of the page"),
        pytest.param('<script src="../assets/bundle.js"></script><img src="ui.png">', [], id="files of the site"),
        pytest.param('<script src="https://unpkg.com/mermaid">', ["//unpkg.com/mermaid"], id="a script"),
        pytest.param('<link rel=stylesheet href="//fonts.example/css">', ["//fonts.example/css"], id="a style sheet"),
        pytest.param('<img alt="x" src=http://a.example/x.png>', ["//a.example/x.png"], id="an image"),
        pytest.param("@font-face{src:url(https://a.example/f.woff2)}", ["//a.example/f.woff2"], id="a font"),
        pytest.param('@import "https://a.example/x.css";', ["//a.example/x.css"], id="an imported style sheet"),
    ],
)
def test_make_site_finds_what_a_page_loads_from_another_host(tmp_path: Path, text: str, loaded: list[str]) -> None:
    (page := tmp_path / "page.html").write_text(text)
    assert runpy.run_path(str(DOCS / "build.py"))["elsewhere"](page) == loaded


def anchors(page: Path) -> set[str]:
    """Of its headings, as code hosts and mkdocs make them."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE), re.M
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_every_heading_that_a_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", page.read_text())
    assert [
        (file, anchor) for file, anchor in links if anchor not in anchors(page.parent / file if file else page)
    ] == []


@pytest.mark.parametrize(("question", "answer", "files"), ROWS, ids=[row[0] for row in ROWS])
def test_a_question_is_answered_by_three_files_at_most(question: str, answer: str, files: str) -> None:
    names = re.findall(r"`([^`]+)`", files)
    assert 1 <= len(names) <= 3
    assert [name for name in names if not (ROOT / name).is_file()] == []


def test_there_are_ten_questions() -> None:
    assert len(ROWS) == 10


POLICIES = re.findall(
    r"```yaml\n(.+?)```", (DOCS / "howto.md").read_text() + (DOCS / "policy.md").read_text(), re.DOTALL
)
(WRITTEN,) = [text for text in POLICIES if "preferences:" in text]


@pytest.mark.parametrize("text", POLICIES)
def test_a_policy_on_a_page_is_valid(text: str) -> None:
    assert Policy.load(text).hash


def test_the_taint_of_the_page_is_tolerated_in_its_profile_beside_those_that_are_known() -> None:
    """Whatever taints nodes have now."""
    (text,) = [text for text in POLICIES if "tolerations:" in text]
    got = {}
    for name, profile in Policy.load(text).file.profiles.items():
        given, _ = applied(profile.injectors.tolerations, case(pod("p"), cluster=UNKNOWN), r"/spec/tolerations(/-)?")
        got[name] = given["spec"]["tolerations"]
    known = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    own = {"key": "team-x/gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    assert got == {"default": [known], "team-x": [own, known]}


WRITTEN_ONES = Policy.load(WRITTEN).file.profiles["default"].placement.preferences


@pytest.mark.parametrize("preference", WRITTEN_ONES, ids=str)
def test_each_preference_on_the_page_chooses_for_its_class_among_nodes_that_differ_in_its_label(
    preference: Preference,
) -> None:
    settings = PlacementSettings(preferences=(preference,))
    (requirement,) = preference.nodes
    meant = {"In": dict.fromkeys([requirement.key], "".join(requirement.values)), "Gt": {requirement.key: "81559"}}
    of = state([node("a", labels={requirement.key: "1"}), node("b", labels=meant.get(requirement.operator, {}))])
    for asked, first in (*((workload, "b") for workload in preference.classes), ("development", "a")):
        assert placer(of).place(AskedPod(pod("p"), GPUS), of.view(0), settings, "pack", asked).nodes[0].node == first


def test_a_pod_with_an_annotation_of_the_page_gets_its_wish() -> None:
    policy = Policy.load(WRITTEN)
    settings = policy.file.profiles["default"].placement
    of = state(
        [node(name, labels={"nvidia.com/gpu.product": f"NVIDIA-{name.upper()}"}) for name in ("a100", "h100", "l4")]
    )
    for key, value, first in (("gpu-model", "H100", "h100"), ("preferred-nodes", "l4", "l4")):
        assert f"gpu-admission.io/{key}" in (DOCS / "annotations.md").read_text()
        wishing = pod("p")
        wishing["metadata"]["annotations"] = {f"gpu-admission.io/{key}": value}
        found = placer(of).place(AskedPod(wishing, policy.gpus), of.view(0), settings, "pack", "training")
        assert found.nodes[0].node == first
