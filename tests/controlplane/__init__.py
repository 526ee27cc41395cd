"""A real Kubernetes control plane with simulated GPU nodes, for the tests and for `make up`.

programs.py   where etcd, kube-apiserver, … come from: a folder, a cache, or a build (build.py, toolchain.py)
plane.py      starts and stops them (process.py), with the settings of settings.py
api.py        a small asynchronous JSON client; objects.py builds the objects that tests create
clusters.py   simulated GPU nodes, as dicts and on the control plane (nodes.py says what one looks like)
fixtures.py   the pytest fixtures
"""
