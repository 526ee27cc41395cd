"""The address of the repository is one setting, and all that follows from it leads to something that is there."""

from pathlib import Path

import pytest
import yaml

from tests.manifests import repository
from tests.manifests.monitoring.files import alerts
from tests.manifests.values import CHART
from tests.test_docs import anchors


def test_what_follows_from_the_address_is_up_to_date() -> None:
    for path, text in repository.files().items():
        assert path.read_text() == text, f"{path.name}: run `make manifests`"


def test_the_chart_and_every_alert_lead_there_and_the_section_exists() -> None:
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert described["home"] == repository.address()
    page = CHART.parents[1] / "docs" / "operations.md"
    for rule in alerts():
        url = rule["annotations"]["runbook_url"]
        assert url == repository.runbook(rule["alert"])
        assert url.partition(f"{repository.address()}/blob/main/")[2].partition("#")[0] == "docs/operations.md"
        assert url.partition("#")[2] in anchors(page)


@pytest.mark.parametrize("wrong", ["http://git.example/a", "https://git.example", "git.example/a", 'https://a/b"c'])
def test_what_is_no_page_of_a_repository_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="wanted the page of the repository"):
        repository.name(wrong)


def test_another_address_is_written_to_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "pyproject.toml"
    copy.write_text(repository.PROJECT.read_text())
    monkeypatch.setattr(repository, "PROJECT", copy)
    repository.name("https://git.example/team/gpu")
    assert repository.address() == "https://git.example/team/gpu"
    assert all("https://git.example/team/gpu" in text for text in repository.files().values())
