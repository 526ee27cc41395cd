"""What is told about decisions. Called from the edges only."""
