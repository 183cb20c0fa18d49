"""Media types to arrays and back."""
