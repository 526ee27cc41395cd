"""Decides about one admission request: a request goes in, a decision comes out."""
