"""Decides: a review goes in, a decision comes out."""
