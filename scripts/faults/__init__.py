"""Faults under load: callers of every API write a history, and a checker decides by that alone what went wrong."""
