"""The rules: units that find violations in a pod. One file each; `policy/model.py` lists them in run order."""
