"""The commands of `gpu-admission policy`: about policies, before and after they are in force."""
