"""The policy: all settings, how they are read and checked, and the document that explains them."""
