"""The injectors: units that change a pod. One file each; `policy/model.py` lists them in run order."""
