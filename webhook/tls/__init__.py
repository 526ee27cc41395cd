"""Certificates: issued, rotated, served."""
