"""Other readers of pods, for real: controllers that clusters have, on a control plane of their own, with us and without us.

`make test-others` builds those that are nowhere, and runs all files here; `pytest -m others tests/e2e/others/test_lws.py` one. A
file names its controllers in `OTHERS`. What it says of pods is said of those that are stored and bound.

A new controller is a row in `tests/controlplane/others.py`, its module and its program in a go.mod in `tests/controlplane/go/`
(then `go mod tidy`), and a row in docs/beside.md.
"""
