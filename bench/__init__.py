"""What is fast, and how we know."""
