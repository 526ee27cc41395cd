"""Rules: what is refused, or warned about, before a pod exists. One file each; `policy.py` lists them in run order."""
