"""Claims about Kubernetes, asserted on the stored or the bound pod.

`behaviour/` has tables of what becomes of pods with the webhook and without it; its docstring says how a case is added. The
fixtures `api`, `nodes` and `team` give a control plane, simulated GPU nodes and a namespace that has opted in. What installs by
itself does so within `bare`, on the control plane `beside`.
"""
