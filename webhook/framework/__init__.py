"""What a unit gets and what it gives back."""
