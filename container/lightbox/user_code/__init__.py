"""The user's ``code/inference.py``: found, checked, loaded and called."""
