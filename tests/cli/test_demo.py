"""`make demo`: the sample pods and their decisions."""

from __future__ import annotations

import pytest

from webhook.cli.demo import main


def test_it_shows_how_each_example_was_changed_or_why_it_was_refused(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    examples = printed.split("\n\n")[1:-1]
    assert len(examples) >= 5
    assert all("\n  allowed" in example or "\n  refused: " in example for example in examples)
    assert any("+  tolerations:" in example for example in examples)
    assert any("  nodes (" in example for example in examples)
    assert printed.rstrip().endswith("Next: make up starts a real Kubernetes control plane with the webhook in it.")
