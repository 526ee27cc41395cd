"""Rules: what is refused, or warned about, before a pod exists. One file each; `policy/model.py` lists them in run order."""
